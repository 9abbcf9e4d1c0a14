//! What the machine allows: the same bytes and the same round trips with nothing around them.

use crate::Plan;
use crate::load::{Fallible, fresh};
use crate::table::Round;
use rustix::event::epoll;
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

const RECORD: usize = 256;
const ANSWER: usize = 32;
const FILE_BYTES: u64 = 256 << 20;

/// A preallocated file and the place of the next append.
struct Journal {
    file: File,
    offset: u64,
}

impl Journal {
    fn create(plan: &Plan) -> Fallible<Self> {
        let file = File::create(fresh(&plan.dir, "limit")?.join("journal"))?;
        fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?;
        file.sync_all()?;
        Ok(Self { file, offset: 0 })
    }

    fn append(&mut self, bytes: &[u8]) -> Fallible<()> {
        if FILE_BYTES < self.offset + bytes.len() as u64 {
            self.offset = 0;
        }
        self.file.write_all_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(fdatasync(&self.file)?)
    }
}

fn timed(span: Duration, moves: u64, mut act: impl FnMut() -> Fallible<()>) -> Fallible<Round> {
    for _ in 0..20 {
        act()?;
    }
    let (mut times, began) = (Vec::new(), Instant::now());
    while began.elapsed() < span {
        let at = Instant::now();
        act()?;
        times.push(u64::try_from(at.elapsed().as_nanos())?);
    }
    let done = times.len() as u64 * moves;
    Ok(Round::of(times, done, began.elapsed().as_secs_f64()))
}

/// One append with its sync, then one round trip over a unix socket: the sum of both medians.
pub(crate) fn one_by_one(plan: &Plan) -> Fallible<Round> {
    let mut journal = Journal::create(plan)?;
    let half = plan.span / 2;
    let append = timed(half, 1, || journal.append(&[7; RECORD]))?;
    let (mut near, mut far) = UnixStream::pair()?;
    let echo = thread::Builder::new().name("echo".to_owned()).spawn(move || {
        let mut record = [0; RECORD];
        while far.read_exact(&mut record).is_ok() && far.write_all(&[1; ANSWER]).is_ok() {}
    })?;
    let trip = timed(half, 1, || {
        near.write_all(&[7; RECORD])?;
        near.read_exact(&mut [0; ANSWER])?;
        Ok(())
    })?;
    drop(near);
    echo.join().map_err(|_panic| "the echo broke off")?;
    let rate = 1.0 / (1.0 / append.rate + 1.0 / trip.rate);
    Ok(Round { rate, p50: append.p50 + trip.p50, p99: append.p99 + trip.p99 })
}

/// A thousand records in one append with its sync.
pub(crate) fn bulk(plan: &Plan) -> Fallible<Round> {
    let mut journal = Journal::create(plan)?;
    let records = vec![7; RECORD * 1000];
    timed(plan.span, 1000, || journal.append(&records))
}

/// A loop that reads what is there, appends it with one sync, and answers: group commit with
/// nothing around it.
pub(crate) fn bare_loop(plan: &Plan, clients: usize) -> Fallible<Round> {
    let mut journal = Journal::create(plan)?;
    let pairs: Vec<_> = (0..clients).map(|_| UnixStream::pair()).collect::<Result<_, _>>()?;
    let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let results = thread::scope(|scope| {
        let serving = scope.spawn(move || serve(&mut journal, far));
        let load = |mut stream: UnixStream| {
            scope.spawn(move || {
                let began = Instant::now();
                let round = timed(plan.span, 1, || {
                    stream.write_all(&[7; RECORD])?;
                    stream.read_exact(&mut [0; ANSWER])?;
                    Ok(())
                })?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>((round, began.elapsed()))
            })
        };
        let clients: Vec<_> = near.into_iter().map(load).collect();
        let results: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (results, serving.join())
    });
    let (results, served) = results;
    served.map_err(|_panic| "the bare loop broke off")??;
    let (mut rate, mut p50s, mut p99) = (0.0, Vec::new(), 0.0_f64);
    for result in results {
        let (round, _) = result.map_err(|_panic| "a client broke off")??;
        rate += round.rate;
        p50s.push(round.p50);
        p99 = p99.max(round.p99);
    }
    p50s.sort_by(f64::total_cmp);
    Ok(Round { rate, p50: p50s.get(p50s.len() / 2).copied().unwrap_or(0.0), p99 })
}

fn serve(journal: &mut Journal, mut streams: Vec<UnixStream>) -> Fallible<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (place, stream) in streams.iter().enumerate() {
        let data = epoll::EventData::new_u64(place as u64);
        epoll::add(&poll, stream, data, epoll::EventFlags::IN)?;
    }
    let mut open = streams.len();
    let mut events = Vec::with_capacity(64);
    let (mut bytes, mut who) = (Vec::new(), Vec::new());
    while 0 < open {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        bytes.clear();
        who.clear();
        for event in &events {
            let place = usize::try_from(event.data.u64())?;
            let stream = streams.get_mut(place).ok_or("no such stream")?;
            let mut record = [0; RECORD];
            if stream.read_exact(&mut record).is_ok() {
                bytes.extend_from_slice(&record);
                who.push(place);
            } else {
                epoll::delete(&poll, &*stream)?;
                open -= 1;
            }
        }
        if who.is_empty() {
            continue;
        }
        journal.append(&bytes)?;
        for place in &who {
            streams.get_mut(*place).ok_or("no such stream")?.write_all(&[1; ANSWER])?;
        }
    }
    Ok(())
}

/// Bytes that the kernel has charged to a process as written to a device.
pub(crate) fn written_by(pid: u32) -> Fallible<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let digits = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(digits.ok_or("the kernel does not count what is written")?.parse()?)
}

/// Bytes written for one append and its sync, so many times.
pub(crate) fn page_and_sync(plan: &Plan, times: u64) -> Fallible<f64> {
    let mut journal = Journal::create(plan)?;
    let before = written_by(std::process::id())?;
    for _ in 0..times {
        journal.append(&[7; RECORD])?;
    }
    Ok(crate::table::float(written_by(std::process::id())? - before) / crate::table::float(times))
}

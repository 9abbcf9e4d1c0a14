//! A reader of stores as naive as can be, written from `spec/journal.md` and `spec/recovery.md`
//! alone: whole files in memory, every place tried, nothing taken from the journal's own code. What
//! the two readers disagree about is a mistake in one of them, or a gap in the documents.

use std::collections::BTreeMap;

/// A store: contents by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Sequence, kind, whether it may be skipped, body.
pub type Held = (u64, u16, bool, Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    End,
    Torn,
    Suspicious,
}

/// What a store holds. `Err` is any refusal: damage, a newer format, another store's file.
pub type Read = Result<Holding, String>;

#[derive(Debug, PartialEq, Eq)]
pub struct Holding {
    pub records: Vec<Held>,
    pub class: Class,
    /// The sequence that is due at the end.
    pub next_seq: u64,
    /// Snapshots by sequence: the records of a whole one.
    pub snapshots: Vec<(u64, Option<u64>)>,
}

/// The CRC-32 of zlib, bit by bit into a table.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

pub fn crc32(parts: &[&[u8]]) -> u32 {
    let step =
        |crc: u32, byte: &u8| CRC_TABLE[((crc ^ u32::from(*byte)) & 255) as usize] ^ (crc >> 8);
    !parts.iter().flat_map(|part| part.iter()).fold(!0, step)
}

pub fn u16_of(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

pub fn u32_of(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn u64_of(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

enum Sector<'a> {
    Whole(&'a [u8]),
    Bad,
}

/// The first sector of a file; `Err` when a newer midwatch wrote it.
fn sector(bytes: &[u8], at: usize, kind: u8) -> Result<Sector<'_>, String> {
    let Some(sector) = bytes.get(at..at + 512) else { return Ok(Sector::Bad) };
    let magic = [0x89, 0x4D, 0x57, kind, 0x0D, 0x0A, 0x1A, 0x0A];
    if sector[..8] != magic || u32_of(sector, 508) != crc32(&[&sector[..508]]) {
        return Ok(Sector::Bad);
    }
    if 1 < u16_of(sector, 10) { Err("newer".to_owned()) } else { Ok(Sector::Whole(sector)) }
}

/// A header page, its fields believed.
#[derive(Clone, Debug)]
struct Header {
    alignment: usize,
    store: [u8; 16],
    number: u64,
    first_seq: u64,
    salt: u64,
    previous: (u64, u64, u64, u32),
    skipped: bool,
    weak: bool,
    copies_end: u64,
    resume_seq: u64,
}

fn header(bytes: &[u8], kind: u8) -> Result<Option<Header>, String> {
    let Sector::Whole(page) = sector(bytes, 0, kind)? else { return Ok(None) };
    let header = Header {
        alignment: u32_of(page, 12) as usize,
        store: page[16..32].try_into().unwrap(),
        number: u64_of(page, 32),
        first_seq: u64_of(page, 40),
        salt: u64_of(page, 48),
        previous: (u64_of(page, 88), u64_of(page, 96), u64_of(page, 104), u32_of(page, 112)),
        skipped: u32_of(page, 116) & 1 == 1,
        weak: u32_of(page, 116) & 2 == 2,
        copies_end: u64_of(page, 120),
        resume_seq: u64_of(page, 128),
    };
    let Header { number, first_seq, previous, copies_end, resume_seq, .. } = header;
    let aligned = [512, 1024, 2048, 4096].contains(&header.alignment);
    let right = if kind == b'S' {
        number == 0
    } else {
        previous.0 < number
            && 1 <= first_seq
            && first_seq <= resume_seq
            && 4096 <= copies_end
            && copies_end % header.alignment.max(1) as u64 == 0
    };
    Ok((aligned && right).then_some(header))
}

/// A frame whose header holds.
struct Frame {
    flags: u16,
    first_seq: u64,
    count: u64,
    length: usize,
    checksum: u32,
    /// Its records, when it is whole.
    records: Option<Vec<Held>>,
}

impl Frame {
    fn next_seq(&self) -> u64 {
        self.first_seq + self.count
    }
}

/// The frame at a place, if its header holds.
fn frame(bytes: &[u8], header: &Header, at: usize) -> Option<Frame> {
    let salt = header.salt.to_le_bytes();
    let head = bytes.get(at..at + 32)?;
    let checksum = u32_of(head, 28);
    let offset = (at as u64).to_le_bytes();
    if head[..4] != [0xF7, 0x4D, 0x57, 0x46] || checksum != crc32(&[&salt, &offset, &head[..28]]) {
        return None;
    }
    let (flags, first_seq) = (u16_of(head, 4), u64_of(head, 8));
    let (count, length) = (u64::from(u32_of(head, 16)), u32_of(head, 20) as usize);
    let last = flags & 4 != 0;
    let counted = if last { count == 0 && length == 0 } else { count != 0 };
    let fits = length <= (4 << 20) - 33 && 12 * count <= length as u64;
    if !counted || !fits || first_seq.checked_add(count).is_none() {
        return None;
    }
    let records = bytes.get(at + 32..at + 32 + length).and_then(|body| {
        let whole = u32_of(head, 24) == crc32(&[&salt, body]);
        whole.then(|| records(body, &salt, first_seq, count)).flatten()
    });
    Some(Frame { flags, first_seq, count, length, checksum, records })
}

fn records(mut body: &[u8], salt: &[u8], first_seq: u64, count: u64) -> Option<Vec<Held>> {
    let mut held = Vec::new();
    for seq in first_seq..first_seq + count {
        let length = u32_of(body.get(..12)?, 4) as usize;
        let record = body.get(..12 + length)?;
        if u32_of(record, 0) != crc32(&[salt, &seq.to_le_bytes(), &record[4..]]) {
            return None;
        }
        let ignorable = u16_of(record, 10) & 1 == 1;
        held.push((seq, u16_of(record, 8), ignorable, record[12..].to_vec()));
        body = &body[12 + length..];
    }
    body.is_empty().then_some(held)
}

/// The place of the frame behind one with so many bytes of records.
fn behind(at: usize, length: usize, alignment: usize) -> usize {
    at + (32 + length + 1).next_multiple_of(alignment)
}

/// The number in a name of so many digits.
fn digits(text: &str, count: usize) -> Option<u64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

struct Floor {
    store: [u8; 16],
    generation: u64,
    seq: u64,
    segment: u64,
}

fn floor(files: &Files) -> Result<Option<Floor>, String> {
    let mut newest: Option<Floor> = None;
    for at in [0, 4096] {
        let bytes = files.get("floor").map_or(&[][..], Vec::as_slice);
        let Sector::Whole(slot) = sector(bytes, at, b'F')? else { continue };
        let slot = Floor {
            store: slot[16..32].try_into().unwrap(),
            generation: u64_of(slot, 32),
            seq: u64_of(slot, 40),
            segment: u64_of(slot, 48),
        };
        if newest.as_ref().is_none_or(|newest| newest.generation <= slot.generation) {
            newest = Some(slot);
        }
    }
    Ok(newest)
}

struct Segment<'a> {
    bytes: &'a [u8],
    header: Header,
}

/// Reads a whole store, or says why it is refused.
pub fn read(files: &Files) -> Read {
    let floor = floor(files)?;
    let store_bytes = files.get("store").map(Vec::as_slice);
    let mut store: Option<[u8; 16]> = None;
    if let Sector::Whole(sector) = sector(store_bytes.unwrap_or_default(), 0, b'U')? {
        store = Some(sector[16..32].try_into().unwrap());
    }
    let mut names = Vec::new();
    let mut snapshot_seqs = Vec::new();
    for path in files.keys() {
        let segment = path.strip_prefix("journal/").and_then(|name| name.strip_suffix(".journal"));
        if let Some((number, seq)) = segment.and_then(|name| name.split_once('-'))
            && let (Some(number), Some(seq)) = (digits(number, 10), digits(seq, 20))
        {
            names.push((path, number, seq));
        }
        let snapshot = path.strip_prefix("snapshots/").and_then(|n| n.strip_suffix(".snapshot"));
        snapshot_seqs.extend(snapshot.and_then(|name| Some((digits(name, 20)?, path))));
    }
    let mut blank = false;
    let mut segments: Vec<Segment<'_>> = Vec::new();
    for (index, (path, number, seq)) in names.iter().enumerate() {
        let bytes = files[*path].as_slice();
        let Some(header) = header(bytes, b'J')?.filter(|_| 4096 <= bytes.len()) else {
            let named = floor.as_ref().is_some_and(|floor| *number <= floor.segment);
            if index + 1 < names.len() || named || bytes.iter().any(|byte| *byte != 0) {
                return Err(format!("{path}: bad header"));
            }
            blank = true;
            continue;
        };
        if (header.number, header.first_seq) != (*number, *seq) {
            return Err(format!("{path}: another name"));
        }
        if *store.get_or_insert(header.store) != header.store {
            return Err(format!("{path}: another store"));
        }
        if let Some(before) = segments.last() {
            let number = before.header.number;
            if header.previous.0 != number || header.number != number + 1 {
                return Err(format!("{path}: a gap before it"));
            }
        }
        segments.push(Segment { bytes, header });
    }
    if let Some(floor) = &floor {
        let newest = segments.last().map_or(0, |segment| segment.header.number);
        if newest < floor.segment || store.is_some_and(|store| store != floor.store) {
            return Err("floor: of another store, or a segment is missing".to_owned());
        }
    }
    if segments.is_empty() && (store_bytes.is_some() || !snapshot_seqs.is_empty()) {
        return Err("all segments are missing".to_owned());
    }
    let mut snapshots = Vec::new();
    for (seq, path) in &snapshot_seqs {
        snapshots.push((*seq, snapshot(&files[*path], *seq, store)?));
    }
    let oldest =
        segments.first().map_or((1, 1), |first| (first.header.number, first.header.first_seq));
    let good = snapshots.iter().filter(|(_, whole)| whole.is_some()).map(|(seq, _)| *seq).max();
    if 1 < oldest.0 && good.unwrap_or(0) < oldest.1 - 1 {
        return Err("no snapshot reaches the oldest segment".to_owned());
    }
    let floor_seq = floor.map_or(0, |floor| floor.seq);
    let named = snapshot_seqs.iter().map(|(seq, _)| *seq).max().unwrap_or(0).max(floor_seq);
    let (records, next_seq, mut class) = journal(&segments, named)?;
    if blank {
        class = Class::Suspicious;
    }
    Ok(Holding { records, class, next_seq, snapshots })
}

/// The number of records of a snapshot that is whole.
fn snapshot(bytes: &[u8], seq: u64, store: Option<[u8; 16]>) -> Result<Option<u64>, String> {
    let Some(header) = header(bytes, b'S')? else { return Ok(None) };
    if store.is_some_and(|store| store != header.store) {
        return Err("a snapshot of another store".to_owned());
    }
    let (mut at, mut due) = (4096, 0);
    while header.first_seq == seq {
        let Some(frame) = frame(bytes, &header, at) else { break };
        if frame.records.is_none() || frame.first_seq != due {
            break;
        }
        if frame.flags & 4 != 0 {
            return Ok(Some(due));
        }
        due = frame.next_seq();
        at = behind(at, frame.length, header.alignment);
    }
    Ok(None)
}

/// All records, the sequence that is due behind them, and how they end.
fn journal(segments: &[Segment<'_>], named: u64) -> Result<(Vec<Held>, u64, Class), String> {
    let mut held = Vec::new();
    let mut due = 1;
    if segments.is_empty() && 1 <= named {
        return Err("what the floor names is gone".to_owned());
    }
    for (index, Segment { bytes, header }) in segments.iter().enumerate() {
        let skips = header.skipped && header.copies_end == 4096 && due < header.first_seq;
        if index != 0 && header.first_seq != due && !skips {
            return Err(format!("segment {} begins elsewhere", header.number));
        }
        let end = segments.get(index + 1).map(|next| next.header.previous);
        if end.is_some_and(|end| (bytes.len() as u64) < end.1) {
            return Err(format!("segment {} ends too early", header.number));
        }
        let (mut at, mut checksum) = (4096, 0);
        due = header.first_seq;
        loop {
            if at as u64 == header.copies_end {
                if header.resume_seq < due || (due < header.resume_seq && !header.skipped) {
                    return Err(format!(
                        "segment {}: another sequence behind the copies",
                        header.number
                    ));
                }
                due = header.resume_seq;
            }
            if end.is_some_and(|end| end.1 <= at as u64) {
                break;
            }
            match frame(bytes, header, at) {
                Some(Frame {
                    flags,
                    first_seq,
                    records: Some(records),
                    length,
                    checksum: crc,
                    ..
                }) if flags & 4 == 0 => {
                    if first_seq != due {
                        return Err(format!(
                            "byte {at} of segment {}: another sequence",
                            header.number
                        ));
                    }
                    due += records.len() as u64;
                    held.extend(records);
                    checksum = crc;
                    at = behind(at, length, header.alignment);
                }
                _ if end.is_some() => {
                    return Err(format!("byte {at} of segment {}", header.number));
                }
                _ => {
                    let durable = due <= named || (at as u64) < header.copies_end;
                    let class = class(bytes, header, at, durable)?;
                    return Ok((held, due, class));
                }
            }
        }
        if end.is_some_and(|(_, end, next_seq, crc)| {
            (at as u64, due, checksum) != (end, next_seq, crc)
        }) {
            return Err(format!(
                "segment {} ends elsewhere than its successor says",
                header.number
            ));
        }
    }
    Ok((held, due, Class::End))
}

/// The table of `spec/recovery.md`, for a place without a whole frame.
fn class(bytes: &[u8], header: &Header, place: usize, named: bool) -> Result<Class, String> {
    let rest = bytes.get(place..).unwrap_or_default();
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else {
        return if named { Err("what was durable is gone".to_owned()) } else { Ok(Class::End) };
    };
    let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    let here = frame(bytes, header, place);
    let full = match &here {
        Some(frame) => {
            let end = 32 + frame.length;
            rest.get(end) == Some(&0xFF) && !rest[..=end].chunks(512).any(is_zero)
        }
        None => {
            let sectors = &rest[..rest.len().min((last + 1).next_multiple_of(512))];
            32 <= last && sectors.len().is_multiple_of(512) && !sectors.chunks(512).any(is_zero)
        }
    };
    let mut at = here
        .as_ref()
        .map_or(place + header.alignment, |frame| behind(place, frame.length, header.alignment));
    // One write at a time, each behind the sync of the one before, unless flag 2 says otherwise.
    let mut synced_later = here.is_some() && !header.weak && at <= place + last;
    while at < bytes.len() {
        let Some(frame) = frame(bytes, header, at) else {
            at += header.alignment;
            continue;
        };
        synced_later |= frame.flags & 1 == 1;
        at = behind(at, frame.length, header.alignment);
    }
    match (synced_later || named, full) {
        (true, _) => Err(format!("byte {place} was durable")),
        (false, true) => Ok(Class::Suspicious),
        (false, false) => Ok(Class::Torn),
    }
}

//! Wakes the engine when the wall clock is put forward or back, and when the host wakes up.
//!
//! The kernel tells: a timer on the wall clock that is cancelled when the clock is set. So a step
//! is seen at once, and an idle host is not woken to look for one. Where such a timer is not to be
//! had, the clock is looked at once a second.

use super::hand::{Hand, Message};
use crate::clock;
use crate::kernel::ids::Millis;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// How often the clock is looked at where the kernel does not tell.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How far the clocks' distance may change between two looks without a word to the engine, which
/// judges for itself.
const STILL: Millis = Millis(500);

/// Wakes the engine at every step of the wall clock, for ever.
pub(super) async fn tell_of_steps(hand: Hand) -> ! {
    let timer = match timer().and_then(crate::process::watch_readable) {
        Ok(timer) => timer,
        Err(error) => {
            tracing::warn!("the wall clock is looked at every second, for no timer tells: {error}");
            look_again_and_again(hand).await;
        }
    };
    loop {
        if let Err(error) = cancelled(&timer).await {
            tracing::warn!(
                "the wall clock is looked at every second, for its timer fails: {error}"
            );
            look_again_and_again(hand).await;
        }
        tell(&hand);
    }
}

fn timer() -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
    arm(&timer)?;
    Ok(timer)
}

/// Arms the timer for the end of time: it never rings, it is only cancelled.
fn arm(timer: impl AsFd) -> io::Result<()> {
    let never = Timespec { tv_sec: i64::MAX >> 30, tv_nsec: 0 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: never };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &once)?;
    Ok(())
}

/// Returns when the clock was set.
async fn cancelled(timer: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut ready = timer.readable().await?;
        let mut buffer = [0; 8];
        match ready.try_io(|timer| Ok(rustix::io::read(timer, &mut buffer)?)) {
            Ok(Err(error)) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => {
                return arm(timer);
            }
            Ok(Err(error)) => return Err(error),
            Ok(Ok(_)) => arm(timer)?,
            Err(_would_block) => {}
        }
    }
}

async fn look_again_and_again(hand: Hand) -> ! {
    let distance = || {
        let raw = clock::read();
        raw.wall.0.wrapping_sub(raw.boot.0)
    };
    let mut known = distance();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = distance();
        if STILL.0 < now.wrapping_sub(known).min(known.wrapping_sub(now)) {
            known = now;
            tell(&hand);
        }
    }
}

/// A full queue is no harm: then the engine is awake, and looks at the clock by itself.
fn tell(hand: &Hand) {
    if hand.send(Message::ClockSet).is_err() {
        tracing::debug!("the engine is busy and sees the step by itself");
    }
}

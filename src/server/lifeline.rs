//! The pipe from the supervisor: its end says that the supervisor is gone, and what comes through
//! it before is news of the engine's siblings.

use super::house::House;
use std::os::fd::OwnedFd;

/// Longest line that is taken.
const LINE_BYTES_MAX: usize = 1024;

/// Takes the news that come through the pipe, until its other end is closed.
pub(super) async fn closed(lifeline: Option<OwnedFd>, house: &House) {
    let Some(lifeline) = lifeline else { return std::future::pending().await };
    if let Err(error) = rustix::io::ioctl_fionbio(&lifeline, true) {
        tracing::warn!("cannot watch the lifeline: {error}");
    }
    let watched = match crate::process::watch_readable(lifeline) {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!("cannot watch the lifeline: {error}");
            return std::future::pending().await;
        }
    };
    let (mut buffer, mut line) = ([0; 256], Vec::new());
    loop {
        let Ok(mut ready) = watched.readable().await else { return };
        let read = ready.try_io(|lifeline| Ok(rustix::io::read(lifeline, &mut buffer)?));
        match read {
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(bytes)) => hear(&mut line, buffer.get(..bytes).unwrap_or_default(), house),
            Err(_would_block) => {}
        }
    }
}

fn hear(line: &mut Vec<u8>, bytes: &[u8], house: &House) {
    for byte in bytes {
        if *byte == b'\n' {
            house.hear(&String::from_utf8_lossy(line));
            line.clear();
        } else if line.len() < LINE_BYTES_MAX {
            line.push(*byte);
        }
    }
}

//! What a fuzzer does to the files of a store: what disks and people do, and what neither does, a
//! change with every checksum made right again, so that the fuzzer gets behind the checksums.

use crate::bytes::Bytes;
use crate::reference::{Files, crc32, u32_of, u64_of};

const FRAME_MAGIC: [u8; 4] = [0xF7, b'M', b'W', b'F'];
const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// Does one thing to the files whose path `wanted` accepts.
pub fn any(files: &mut Files, bytes: &mut Bytes<'_>, wanted: fn(&str) -> bool) {
    let paths: Vec<_> = files.keys().filter(|path| wanted(path)).cloned().collect();
    if paths.is_empty() {
        return;
    }
    let path = &paths[bytes.below(paths.len())];
    let other = |bytes: &mut Bytes<'_>| files[&paths[bytes.below(paths.len())]].clone();
    match bytes.byte() % 16 {
        0 => drop(files.remove(path)),
        1 => {
            let other = other(bytes);
            files.insert(path.clone(), other);
        }
        2 => rename(files, path, bytes),
        what => {
            let file = files.get_mut(path).expect("it was listed");
            match what {
                3 => rot(file, bytes),
                4 => zero(file, bytes),
                5 => file.truncate(place(file, bytes)),
                6 => {
                    let count = bytes.below(64);
                    file.extend_from_slice(bytes.take(count));
                }
                7 => move_sectors(file, bytes),
                8..=10 => field_of_first_sector(file, bytes),
                11 | 12 => field_of_frame(file, bytes),
                13 => record(file, bytes),
                14 => frame_elsewhere(file, bytes),
                _ => frame_made_up(file, bytes),
            }
        }
    }
}

/// A place in a file, those near its beginning easier to reach.
fn place(file: &[u8], bytes: &mut Bytes<'_>) -> usize {
    let near = if bytes.bit() { file.len() } else { file.len().min(6000) };
    let place = usize::from(bytes.byte()) * 256 + usize::from(bytes.byte());
    place % near.max(1)
}

fn rot(file: &mut [u8], bytes: &mut Bytes<'_>) {
    let place = place(file, bytes);
    if let Some(byte) = file.get_mut(place) {
        *byte ^= bytes.byte() | 1;
    }
}

fn zero(file: &mut [u8], bytes: &mut Bytes<'_>) {
    let from = place(file, bytes) / SECTOR * SECTOR;
    let to = (from + SECTOR * (1 + bytes.below(20))).min(file.len());
    file[from..to].fill(0);
}

fn move_sectors(file: &mut [u8], bytes: &mut Bytes<'_>) {
    let (from, to) = (place(file, bytes) / SECTOR * SECTOR, place(file, bytes) / SECTOR * SECTOR);
    let count = SECTOR * (1 + bytes.below(3));
    if from + count <= file.len() && to + count <= file.len() {
        file.copy_within(from..from + count, to);
    }
}

/// A segment gets the name that its header asks for, or another one.
fn rename(files: &mut Files, path: &str, bytes: &mut Bytes<'_>) {
    let file = files.remove(path).expect("it was listed");
    let (mut number, mut seq) = match file.get(..PAGE) {
        Some(page) => (u64_of(page, 32), u64_of(page, 40)),
        None => (1, 1),
    };
    match bytes.byte() % 4 {
        0 => number = bytes.number(),
        1 => seq = bytes.number(),
        _ => {}
    }
    let path = if path.starts_with("snapshots/") {
        format!("snapshots/{seq:020}.snapshot")
    } else {
        format!("journal/{number:010}-{seq:020}.journal")
    };
    files.insert(path, file);
}

/// Another number in place of one of `width` bytes: near it, or anything.
fn change(file: &mut [u8], at: usize, width: usize, bytes: &mut Bytes<'_>) {
    let mut old = [0; 8];
    old[..width].copy_from_slice(&file[at..at + width]);
    let old = u64::from_le_bytes(old);
    let new = match bytes.byte() % 8 {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old.wrapping_add(SECTOR as u64),
        3 => old.wrapping_sub(SECTOR as u64),
        4 => old.wrapping_add(u64::from(bytes.byte())),
        5 => old ^ 1 << bytes.below(8 * width),
        _ => bytes.number(),
    };
    file[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}

/// Every field of a first sector, with its width.
const SECTOR_FIELDS: [(usize, usize); 21] = [
    (0, 8),
    (8, 2),
    (10, 2),
    (12, 4),
    (16, 8),
    (32, 8),
    (40, 8),
    (40, 8),
    (48, 8),
    (56, 8),
    (88, 8),
    (96, 8),
    (96, 8),
    (104, 8),
    (112, 4),
    (116, 4),
    (116, 4),
    (120, 8),
    (120, 8),
    (128, 8),
    (128, 8),
];

fn field_of_first_sector(file: &mut [u8], bytes: &mut Bytes<'_>) {
    // The floor has two.
    let start = if bytes.bit() && file.len() < 3 * PAGE { PAGE } else { 0 };
    let Some(sector) = file.get_mut(start..start + SECTOR) else { return };
    for _ in 0..=bytes.below(3) {
        let (at, width) = SECTOR_FIELDS[bytes.below(SECTOR_FIELDS.len())];
        change(sector, at, width, bytes);
    }
    let crc = crc32(&[&sector[..SECTOR - 4]]);
    sector[SECTOR - 4..].copy_from_slice(&crc.to_le_bytes());
}

fn salt(file: &[u8]) -> [u8; 8] {
    file.get(48..56).map_or([0; 8], |salt| salt.try_into().expect("eight bytes"))
}

/// One of the places that begin as a frame does.
fn frame(file: &[u8], bytes: &mut Bytes<'_>) -> Option<usize> {
    let places = (PAGE..file.len()).step_by(SECTOR);
    let frames: Vec<_> = places
        .filter(|at| file[*at..].starts_with(&FRAME_MAGIC) && at + SECTOR <= file.len())
        .collect();
    (!frames.is_empty()).then(|| frames[bytes.below(frames.len())])
}

/// Makes the checksums of what may be a frame right: of its records, of all, of its header.
fn seal(file: &mut [u8], at: usize) {
    let salt = salt(file);
    let (first_seq, length) = (u64_of(file, at + 8), u32_of(file, at + 20) as usize);
    let end = (at + 32).saturating_add(length);
    if end <= file.len() {
        let (mut record, mut seq) = (at + 32, first_seq);
        while record + 12 <= end {
            let next = record + 12 + u32_of(file, record + 4) as usize;
            if end < next {
                break;
            }
            let crc = crc32(&[&salt, &seq.to_le_bytes(), &file[record + 4..next]]);
            file[record..record + 4].copy_from_slice(&crc.to_le_bytes());
            (record, seq) = (next, seq.wrapping_add(1));
        }
        let crc = crc32(&[&salt, &file[at + 32..end]]);
        file[at + 24..at + 28].copy_from_slice(&crc.to_le_bytes());
    }
    seal_header(file, at);
}

fn seal_header(file: &mut [u8], at: usize) {
    let crc = crc32(&[&salt(file), &(at as u64).to_le_bytes(), &file[at..at + 28]]);
    file[at + 28..at + 32].copy_from_slice(&crc.to_le_bytes());
}

fn field_of_frame(file: &mut [u8], bytes: &mut Bytes<'_>) {
    let Some(at) = frame(file, bytes) else { return };
    const FIELDS: [(usize, usize); 8] =
        [(0, 4), (4, 2), (4, 2), (6, 2), (8, 8), (16, 4), (20, 4), (24, 4)];
    let (field, width) = FIELDS[bytes.below(FIELDS.len())];
    change(file, at + field, width, bytes);
    match bytes.byte() % 3 {
        0 => seal_header(file, at),
        _ => seal(file, at),
    }
}

/// Something within the records of a frame.
fn record(file: &mut [u8], bytes: &mut Bytes<'_>) {
    let Some(at) = frame(file, bytes) else { return };
    let length = (u32_of(file, at + 20) as usize).min(file.len() - at - 32).max(1);
    for _ in 0..=bytes.below(4) {
        let behind = usize::from(bytes.byte()) * 256 + usize::from(bytes.byte());
        file[at + 32 + behind % length] = bytes.byte();
    }
    seal(file, at);
}

/// A frame stands at another place, as if it were at home there.
fn frame_elsewhere(file: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    let Some(from) = frame(file, bytes) else { return };
    let to = place(file, bytes).max(PAGE) / SECTOR * SECTOR;
    let length = (32 + u32_of(file, from + 20) as usize + 1).min(file.len() - from);
    let moved = file[from..from + length].to_vec();
    file.resize(file.len().max((to + length).next_multiple_of(SECTOR)), 0);
    file[to..to + length].copy_from_slice(&moved);
    seal(file, to);
}

/// A frame that nobody wrote, at the end of those that are there or anywhere.
fn frame_made_up(file: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    let last = (PAGE..file.len().saturating_sub(SECTOR))
        .step_by(SECTOR)
        .filter(|at| file[*at..].starts_with(&FRAME_MAGIC))
        .last();
    let (mut at, mut due) = match last {
        Some(last) => {
            let length = (u32_of(file, last + 20) as usize).min(1 << 16);
            let due = u64_of(file, last + 8).wrapping_add(u64::from(u32_of(file, last + 16)));
            (last + (33 + length).next_multiple_of(SECTOR), due)
        }
        None => (PAGE, file.get(..PAGE).map_or(1, |page| u64_of(page, 40))),
    };
    if bytes.bit() {
        at += SECTOR * bytes.below(9);
        due = due.wrapping_add(bytes.number());
    }
    let (flags, mut records, mut count) = (u16::from(bytes.byte()), Vec::new(), 0_u32);
    for _ in 0..bytes.below(4) {
        let (kind, ignorable) = (u16::from(bytes.byte()), u16::from(bytes.bit()));
        let length = bytes.below(700);
        let body = bytes.take(length);
        records.extend_from_slice(&[0; 4]);
        records.extend_from_slice(&(body.len() as u32).to_le_bytes());
        records.extend_from_slice(&kind.to_le_bytes());
        records.extend_from_slice(&ignorable.to_le_bytes());
        records.extend_from_slice(body);
        count += 1;
    }
    let mut made = FRAME_MAGIC.to_vec();
    made.extend_from_slice(&flags.to_le_bytes());
    made.extend_from_slice(&[0; 2]);
    made.extend_from_slice(&due.to_le_bytes());
    made.extend_from_slice(&count.to_le_bytes());
    made.extend_from_slice(&(records.len() as u32).to_le_bytes());
    made.extend_from_slice(&[0; 8]);
    made.extend_from_slice(&records);
    made.push(0xFF);
    made.resize(made.len().next_multiple_of(SECTOR), 0);
    file.resize(file.len().max(at + made.len()), 0);
    file[at..at + made.len()].copy_from_slice(&made);
    seal(file, at);
}

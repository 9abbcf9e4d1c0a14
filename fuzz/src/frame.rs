//! Frames: any bytes are read or refused; what was written is read back; one changed bit is seen.

use crate::bytes::Bytes;
use midwatch::journal::Batch;
use midwatch::journal::frame::{FRAME_HEADER_BYTES, alone};

pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    match bytes.byte() % 3 {
        0 => any(&mut bytes, false),
        1 => any(&mut bytes, true),
        _ => there_and_back(&mut bytes),
    }
}

/// Bytes that nobody wrote, with checksums that fail or hold.
fn any(bytes: &mut Bytes<'_>, sealed: bool) {
    let (salt, offset) = (bytes.word(), bytes.word());
    let mut frame = bytes.rest().to_vec();
    if sealed {
        alone::seal(&mut frame, salt, offset);
    }
    let Ok(read) = alone::read(&frame, salt, offset) else { return };
    assert!(read.bytes <= frame.len(), "a frame lies within the bytes that were given");
    let mut batch = Batch::new();
    for (_, record) in &read.records {
        batch.push(record.kind, record.ignorable, record.body);
    }
    let Some((first, _)) = read.records.first() else { return };
    let again = alone::write(&batch, salt, offset, *first);
    let again = alone::read(&again, salt, offset).expect("what is written can be read");
    assert_eq!(again.records, read.records);
}

fn there_and_back(bytes: &mut Bytes<'_>) {
    let (salt, offset) = (bytes.word(), bytes.word() & !511);
    let first_seq = bytes.word() >> 1;
    let flip = bytes.word();
    let mut batch = Batch::new();
    let mut pushed = Vec::new();
    while !bytes.is_empty() {
        let (kind, ignorable, length) = (u16::from(bytes.byte()), bytes.bit(), bytes.below(300));
        let body = bytes.take(length);
        if !batch.fits(body.len()) {
            break;
        }
        batch.push(kind, ignorable, body);
        pushed.push((kind, ignorable, body));
    }
    if batch.is_empty() {
        return;
    }
    let mut frame = alone::write(&batch, salt, offset, first_seq);
    assert!(frame.len().is_multiple_of(512));
    let read = alone::read(&frame, salt, offset).expect("what is written can be read");
    assert!(read.ended, "the end mark stands");
    assert_eq!(read.bytes, FRAME_HEADER_BYTES + batch.bytes());
    assert_eq!(read.records.len(), pushed.len());
    for ((place, (seq, record)), (kind, ignorable, body)) in
        read.records.iter().enumerate().zip(&pushed)
    {
        assert_eq!(*seq, first_seq + place as u64);
        assert_eq!((record.kind, record.ignorable, record.body), (*kind, *ignorable, *body));
    }
    let covered = read.bytes;
    assert!(alone::read(&frame, salt ^ 1, offset).is_err(), "a frame of another file");
    assert!(alone::read(&frame, salt, offset ^ 512).is_err(), "a frame at another place");
    let bit = flip as usize % (covered * 8);
    frame[bit / 8] ^= 1 << (bit % 8);
    assert!(alone::read(&frame, salt, offset).is_err(), "bit {bit} was changed");
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut batch = Batch::new();
    batch.push(1, false, b"first");
    batch.push(2, true, b"");
    batch.push(3, false, &[0xff; 40]);
    let frame = alone::write(&batch, 0, 4096, 7);
    let with = |mode: u8, more: &[u8]| {
        let mut input = vec![mode];
        input.extend_from_slice(&0_u64.to_le_bytes());
        input.extend_from_slice(&4096_u64.to_le_bytes());
        input.extend_from_slice(more);
        input
    };
    let mut plan = vec![0; 16];
    plan.extend_from_slice(&[1, 0, 3, b'a', b'b', b'c', 9, 1, 0, 12, 0, 2, b'd', b'e']);
    let mut longer = frame.clone();
    longer[20] = longer[20].wrapping_add(1);
    vec![
        ("whole", with(0, &frame)),
        ("cut", with(0, &frame[..60])),
        ("sealed", with(1, &frame)),
        ("sealed-longer", with(1, &longer)),
        ("there-and-back", with(2, &plan)),
    ]
}

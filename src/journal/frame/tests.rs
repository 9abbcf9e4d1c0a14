use super::*;
use expect_test::{Expect, expect};

fn slot() -> Slot {
    let salt = Salt::new(0x0123_4567_89AB_CDEF);
    Slot { salt, offset: 4096, first_seq: 7, flags: FLAG_SYNCED, alignment: 512 }
}

fn two_records() -> Batch {
    let mut batch = Batch::new();
    batch.push(1, false, b"hello");
    batch.push(513, true, b"");
    batch
}

fn encoded(batch: &Batch) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(batch, slot(), &mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<FrameHead, FrameFault> {
    let head = decode_head(bytes, slot().salt, slot().offset)?;
    decode_body(head, bytes, slot().salt).map(|_| head)
}

pub(in crate::journal) fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    };
    bytes.chunks(16).map(line).collect::<Vec<_>>().join("\n")
}

fn check(bytes: &[u8], expected: &Expect) {
    expected.assert_eq(&hex(bytes));
}

// spec: JRN-020, JRN-026, JRN-033
#[test]
fn a_frame_has_these_bytes() {
    let bytes = encoded(&two_records());
    assert_eq!(bytes.len(), 512);
    check(
        &bytes[..64],
        &expect![[r"
        f7 4d 57 46 01 00 00 00 07 00 00 00 00 00 00 00
        02 00 00 00 1d 00 00 00 83 ee c3 26 f8 b0 d7 03
        58 c9 ac ef 05 00 00 00 01 00 00 00 68 65 6c 6c
        6f 72 d8 e9 d3 00 00 00 00 01 02 01 00 ff 00 00"]],
    );
    assert!(bytes[64..].iter().all(|&byte| byte == 0));
}

// spec: JRN-032
#[test]
fn a_frame_is_read_as_it_was_written() {
    let bytes = encoded(&two_records());
    let head = decoded(&bytes).unwrap();
    assert_eq!((head.first_seq, head.count, head.next_seq()), (7, 2, 9));
    assert!(head.has(FLAG_SYNCED) && !head.has(FLAG_SKIPPED));
    let body = decode_body(head, &bytes, slot().salt).unwrap();
    let records: Vec<_> = Records::new(head, body).collect();
    let hello = Record { kind: 1, ignorable: false, body: b"hello" };
    let empty = Record { kind: 513, ignorable: true, body: b"" };
    assert_eq!(records, [(7, 32, hello), (8, 49, empty)]);
    assert!(has_end_mark(head, &bytes));
}

// spec: JRN-021
#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let good = encoded(&two_records());
    let length = decoded(&good).unwrap().bytes();
    for bit in 0..length * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decoded(&bytes).is_err(), "bit {bit}");
    }
    for cut in 0..length {
        assert!(decoded(&good[..cut]).is_err(), "cut at {cut}");
        let mut zeroed = good.clone();
        zeroed[cut..].fill(0);
        let same = zeroed[..length] == good[..length];
        assert_eq!(decoded(&zeroed).is_ok(), same, "zeros from {cut}");
    }
    assert!(decoded(&good[..length]).is_ok(), "the padding may be cut");
}

// spec: JRN-023
#[test]
fn a_frame_is_bound_to_its_file_and_its_place() {
    let bytes = encoded(&two_records());
    assert!(decode_head(&bytes, Salt::new(1), 4096).is_err());
    assert!(decode_head(&bytes, slot().salt, 4608).is_err());
}

// spec: JRN-025
#[test]
fn zeros_are_never_a_frame() {
    for salt in 0..10_000 {
        assert!(decode_head(&[0; 512], Salt::new(salt), 4096).is_err());
    }
}

// A CRC over records that are each followed by their own CRC has the same value whatever they hold.
// The checksum of a record stands before it, so that the frame's checksum tells records apart.
// spec: JRN-033
#[test]
fn the_checksum_of_the_frame_depends_on_what_the_records_hold() {
    let mut sums = std::collections::BTreeSet::new();
    for first in 0..=255 {
        let mut batch = Batch::new();
        batch.push(1, false, &[first; 20]);
        batch.push(1, false, b"second");
        sums.insert(decoded(&encoded(&batch)).unwrap().body_crc);
    }
    assert_eq!(sums.len(), 256);
}

// spec: JRN-024
#[test]
fn records_of_two_frames_do_not_mix() {
    let mut one = Batch::new();
    one.push(1, false, b"aaaa");
    one.push(1, false, b"bbbb");
    let mut two = Batch::new();
    two.push(1, false, b"cccc");
    two.push(1, false, b"dddd");
    let (mut mixed, two) = (encoded(&one), encoded(&two));
    mixed[48..64].copy_from_slice(&two[48..64]);
    assert!(matches!(decoded(&mixed), Err(FrameFault::BodyChecksum { .. })));
}

// spec: JRN-022, JRN-027, JRN-030
#[test]
fn numbers_out_of_bounds_are_refused_though_the_checksum_holds() {
    let reseal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = encoded(&two_records());
        change(&mut bytes);
        let crc = slot().salt.checksum(&[&4096_u64.to_le_bytes(), &bytes[..28]]);
        put(&mut bytes, 28, crc);
        decoded(&bytes)
    };
    assert!(reseal(&|_| {}).is_ok());
    assert_eq!(reseal(&|bytes| put(bytes, 16, 0)), Err(FrameFault::Bounds));
    assert_eq!(reseal(&|bytes| put(bytes, 16, u32::MAX)), Err(FrameFault::Bounds));
    assert_eq!(reseal(&|bytes| put(bytes, 20, u32::MAX)), Err(FrameFault::Bounds));
    assert_eq!(reseal(&|bytes| put(bytes, 20, 4000)), Err(FrameFault::BodyCut));
    assert_eq!(reseal(&|bytes| bytes[8..16].fill(0xFF)), Err(FrameFault::Bounds));
    assert_eq!(reseal(&|bytes| put(bytes, 16, 1)), Err(FrameFault::Record { index: 2 }));
    assert_eq!(reseal(&|bytes| bytes[4] |= 4), Err(FrameFault::Bounds));
}

#[test]
fn any_bytes_can_be_read_without_a_panic() {
    let mut salts = crate::journal::writer::Salts::new(1);
    for _ in 0..2000 {
        let mut bytes: Vec<u8> = (0..40).flat_map(|_| salts.draw().to_le_bytes()).collect();
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        put(&mut bytes, 20, 100);
        let crc = slot().salt.checksum(&[&4096_u64.to_le_bytes(), &bytes[..28]]);
        put(&mut bytes, 28, crc);
        assert!(decoded(&bytes).is_err());
        let body_crc = slot().salt.checksum(&[&bytes[32..132]]);
        put(&mut bytes, 24, body_crc);
        put(&mut bytes, 16, 3);
        let crc = slot().salt.checksum(&[&4096_u64.to_le_bytes(), &bytes[..28]]);
        put(&mut bytes, 28, crc);
        assert!(decoded(&bytes).is_err(), "the records are noise");
    }
}

// spec: JRN-028
#[test]
fn a_batch_has_a_bound_unless_it_is_one_record() {
    let mut batch = Batch::new();
    assert!(batch.fits(RECORD_BODY_BYTES_MAX) && !batch.fits(RECORD_BODY_BYTES_MAX + 1));
    batch.push(1, false, b"x");
    let left = BATCH_BYTES_MAX - batch.bytes() - RECORD_HEADER_BYTES;
    assert!(batch.fits(left) && !batch.fits(left + 1));
    batch.clear();
    assert!(batch.is_empty());
    assert_eq!((batch.len(), batch.bytes()), (0, 0));
    assert_eq!(padded(BODY_BYTES_MAX, 4096), FRAME_BYTES_MAX);
}

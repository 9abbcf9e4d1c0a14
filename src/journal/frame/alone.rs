//! One frame by itself, as every reader and writer of a file sees it: for fuzz targets.

use super::{Batch, FrameFault, Record, Records, Salt, Slot};

/// A frame that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone<'a> {
    /// Its records with their sequences.
    pub records: Vec<(u64, Record<'a>)>,
    /// Header and records, in bytes.
    pub bytes: usize,
    /// The end mark is there.
    pub ended: bool,
}

/// Reads the frame at `offset` of a file with this salt.
pub fn read(bytes: &[u8], salt: u64, offset: u64) -> Result<Alone<'_>, FrameFault> {
    let salt = Salt::new(salt);
    let head = super::decode_head(bytes, salt, offset)?;
    let body = super::decode_body(head, bytes, salt)?;
    let records = Records::new(head, body).map(|(seq, _, record)| (seq, record)).collect();
    Ok(Alone { records, bytes: head.bytes(), ended: super::has_end_mark(head, bytes) })
}

/// Writes a batch as the frame at `offset` of a file with this salt, aligned to a sector.
pub fn write(batch: &Batch, salt: u64, offset: u64, first_seq: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let slot = Slot { salt: Salt::new(salt), offset, first_seq, flags: 0, alignment: 512 };
    super::encode(batch, slot, &mut out);
    out
}

/// Makes every checksum right in what may be a frame, so that a fuzzer gets behind them.
pub fn seal(bytes: &mut [u8], salt: u64, offset: u64) {
    let salt = Salt::new(salt);
    let length = super::u32_at(bytes, 20).unwrap_or_default() as usize;
    let first_seq = super::u64_at(bytes, 8).unwrap_or_default();
    let end = super::FRAME_HEADER_BYTES.saturating_add(length);
    if let Some(body) = bytes.get_mut(super::FRAME_HEADER_BYTES..end) {
        super::seal_records(body, salt, first_seq);
        let crc = salt.checksum(&[body]);
        super::put(bytes, 24, crc);
    }
    let head = bytes.get(..28).unwrap_or_default();
    let crc = salt.checksum(&[&offset.to_le_bytes(), head]);
    super::put(bytes, 28, crc);
}

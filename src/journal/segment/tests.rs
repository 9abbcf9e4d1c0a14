use super::*;
use crate::journal::frame::tests::hex;
use expect_test::expect;

fn header() -> Header {
    Header {
        alignment: 512,
        store: *b"the store's uuid",
        number: 3,
        first_seq: 4211,
        salt: 0x0123_4567_89AB_CDEF,
        machine_id: *b"the machine's id",
        boot_id: *b"the boot's id...",
        previous: Link { number: 2, end: 81920, next_seq: 4212, checksum: 0xDEAD_BEEF },
        flags: FLAG_WEAK,
        copied_end: 4608,
        resume_seq: 4213,
    }
}

#[test]
fn a_header_has_these_bytes() {
    let page = header().encode(FileKind::Segment);
    assert_eq!(page.len(), 4096);
    expect![[r"
        89 4d 57 4a 0d 0a 1a 0a 01 00 01 00 00 02 00 00
        74 68 65 20 73 74 6f 72 65 27 73 20 75 75 69 64
        03 00 00 00 00 00 00 00 73 10 00 00 00 00 00 00
        ef cd ab 89 67 45 23 01 74 68 65 20 6d 61 63 68
        69 6e 65 27 73 20 69 64 74 68 65 20 62 6f 6f 74
        27 73 20 69 64 2e 2e 2e 02 00 00 00 00 00 00 00
        00 40 01 00 00 00 00 00 74 10 00 00 00 00 00 00
        ef be ad de 02 00 00 00 00 12 00 00 00 00 00 00
        75 10 00 00 00 00 00 00 00 00 00 00 00 00 00 00"]]
    .assert_eq(&hex(&page[..144]));
    expect!["00 00 00 00 00 00 00 00 00 00 00 00 d3 1d eb 51"].assert_eq(&hex(&page[496..512]));
    assert!(page[136..508].iter().chain(&page[512..]).all(|&byte| byte == 0));
    assert_eq!(Header::decode(&page, FileKind::Segment), Ok(header()));
}

// W35.
// spec: JRN-004
#[test]
fn every_flipped_bit_and_every_cut_of_a_header_is_noticed() {
    let page = header().encode(FileKind::Segment);
    for bit in 0..512 * 8 {
        let mut bytes = page.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::decode(&bytes, FileKind::Segment).is_err(), "bit {bit}");
    }
    for cut in 0..512 {
        assert_eq!(Header::decode(&page[..cut], FileKind::Segment), Err(HeaderFault::Cut));
    }
    assert!(Header::decode(&page[..512], FileKind::Segment).is_ok());
    assert_eq!(Header::decode(&[0; 4096], FileKind::Segment), Err(HeaderFault::Zero));
}

// spec: JRN-006
#[test]
fn a_transfer_in_text_mode_is_called_by_its_name() {
    let page = header().encode(FileKind::Segment);
    let mut bytes = page.clone();
    bytes.remove(4); // CR LF became LF
    assert_eq!(Header::decode(&bytes, FileKind::Segment), Err(HeaderFault::TextMode));
    assert_eq!(Header::decode(&page, FileKind::Snapshot), Err(HeaderFault::Magic));
}

// spec: JRN-005
#[test]
fn a_newer_format_is_refused_by_name_unless_old_readers_will_do() {
    let reseal = |version: u8, needs: u8| {
        let mut page = header().encode(FileKind::Segment);
        (page[8], page[10]) = (version, needs);
        page.truncate(508);
        let mut sector = page;
        seal_sector(&mut sector);
        Header::decode(&sector, FileKind::Segment)
    };
    assert_eq!(reseal(2, 2), Err(HeaderFault::Newer { version: 2, needs: 2 }));
    assert_eq!(reseal(2, 1), Ok(header()));
}

#[test]
fn fields_out_of_bounds_are_refused_though_the_checksum_holds() {
    let wrong = [
        Header { alignment: 0, ..header() },
        Header { alignment: 513, ..header() },
        Header { alignment: 8192, ..header() },
        Header { number: 0, ..header() },
        Header { previous: Link { number: 3, ..header().previous }, ..header() },
        Header { resume_seq: 4210, ..header() },
        Header { copied_end: 100, ..header() },
        Header { copied_end: 4097, ..header() },
    ];
    for header in wrong {
        let page = header.encode(FileKind::Segment);
        assert_eq!(Header::decode(&page, FileKind::Segment), Err(HeaderFault::Bounds));
    }
}

#[test]
fn names_follow_their_grammar_and_nothing_else_does() {
    assert_eq!(segment_path(7, 4211), "journal/0000000007-00000000000000004211.journal");
    assert_eq!(snapshot_path(12), "snapshots/00000000000000000012.snapshot");
    let segment = "0000000007-00000000000000004211.journal";
    assert_eq!(parse_segment_name(segment), Some((7, 4211)));
    assert_eq!(parse_snapshot_name("00000000000000000012.snapshot"), Some(12));
    for name in ["", ".journal", "7-4211.journal", "+000000007-00000000000000004211.journal"] {
        assert_eq!(parse_segment_name(name), None, "{name}");
    }
    assert_eq!(parse_segment_name(&format!("{segment}.tmp")), None);
    assert_eq!(parse_snapshot_name("99999999999999999999.snapshot"), None, "more than a u64");
}

#!/usr/bin/env python3
"""Reads a store by spec/journal.md alone and prints a JSON line for each record.

A proof that the page is enough, not a tool: it takes every whole frame up to the end that
the next segment names, and in the last segment up to the first frame that is not whole.
"""
import json, os, struct, sys, zlib

def sector(data, letter):
    head = data[:512]
    assert len(head) == 512 and head[:8] == b"\x89MW" + letter + b"\r\n\x1a\n", "magic"
    assert struct.unpack_from("<I", head, 508)[0] == zlib.crc32(head[:508]), "checksum"
    assert struct.unpack_from("<H", head, 10)[0] <= 1, "newer format"
    return head

def frame(data, at, salt, align):
    """The frame at a place: (flags, first sequence, records, next place, checksum), or None."""
    head = data[at:at + 32]
    if len(head) < 32 or head[:4] != b"\xf7MWF":
        return None
    flags, _, first, count, length, body_crc, head_crc = struct.unpack_from("<HHQIIII", head, 4)
    if zlib.crc32(salt + struct.pack("<Q", at) + head[:28]) != head_crc:
        return None
    body = data[at + 32:at + 32 + length]
    if length > (4 << 20) - 33 or zlib.crc32(salt + body) != body_crc:
        return None
    records, pos = [], 0
    for seq in range(first, first + count):
        crc, size, kind, bits = struct.unpack_from("<IIHH", body, pos)
        assert zlib.crc32(salt + struct.pack("<Q", seq) + body[pos + 4:pos + 12 + size]) == crc
        records.append((seq, kind, bits & 1 == 1, body[pos + 12:pos + 12 + size]))
        pos += 12 + size
    assert pos == length
    return flags, first, records, at + -(-(33 + length) // align) * align, head_crc

def main(root):
    def show(what, record):
        seq, kind, ignorable, body = record
        print(json.dumps({what: seq, "kind": kind, "ignorable": ignorable, "body": body.hex()}))

    snapshots = os.path.join(root, "snapshots")
    base = 0
    for name in sorted(os.listdir(snapshots))[-1:]:
        data = open(os.path.join(snapshots, name), "rb").read()
        head = sector(data, b"S")
        align, (base,), salt = struct.unpack_from("<I", head, 12)[0], struct.unpack_from("<Q", head, 40), head[48:56]
        at, flags = 4096, 0
        while not flags & 4:
            flags, _, records, at, _ = frame(data, at, salt, align)
            for record in records:
                show("snapshot", record)

    journal = os.path.join(root, "journal")
    files = [open(os.path.join(journal, name), "rb").read()
             for name in sorted(os.listdir(journal)) if name.endswith(".journal")]
    heads = [sector(data, b"J") for data in files]
    for index, (data, head) in enumerate(zip(files, heads)):
        align, salt = struct.unpack_from("<I", head, 12)[0], head[48:56]
        end = struct.unpack_from("<Q", heads[index + 1], 96)[0] if index + 1 < len(heads) else None
        at = 4096
        while at != end:
            found = frame(data, at, salt, align)
            if found is None:
                assert end is None, "damage"
                break
            _, _, records, at, _ = found
            for record in records:
                if base < record[0]:
                    show("seq", record)

main(sys.argv[1])

//! The bytes of one file, twice: as a reader sees them now, and as the platter holds them.
//!
//! Pages are shared between copies, so that keeping a copy of the whole disk at each call costs a
//! few pointers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes in a page: what the kernel writes back at once.
pub(super) const PAGE: usize = 4096;
/// Bytes in a sector: what the device writes whole or not at all.
pub(super) const SECTOR: usize = 512;
const SECTORS_A_PAGE: u64 = (PAGE / SECTOR) as u64;

pub(super) type Sector = [u8; SECTOR];

/// Sparse bytes: a page that isn't there reads as zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
    len: u64,
}

impl Image {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut image = Self { pages: BTreeMap::new(), len: bytes.len() as u64 };
        image.patch(0, bytes);
        image
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Sets the length.
    pub(super) fn set_len(&mut self, len: u64) {
        self.len = len;
    }

    /// Forgets what lies behind the end, so that a file that grows again reads zeros there.
    pub(super) fn trim(&mut self) {
        let len = self.len;
        self.pages.retain(|page, _| page * (PAGE as u64) < len);
        let inside = index(len % PAGE as u64);
        if let Some(last) = self.pages.get_mut(&(len / PAGE as u64))
            && last[inside..].iter().any(|byte| *byte != 0)
        {
            Arc::make_mut(last)[inside..].fill(0);
        }
    }

    /// Puts bytes in place without looking at the length.
    pub(super) fn patch(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let inside = index(at % PAGE as u64);
            let count = (PAGE - inside).min(bytes.len() - done);
            let page = self.pages.entry(at / PAGE as u64).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[inside..inside + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }

    /// Copies from `offset`; returns how many bytes there were before the end.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let count = index(self.len.saturating_sub(offset)).min(buffer.len());
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let inside = index(at % PAGE as u64);
            let part = (PAGE - inside).min(count - done);
            let target = &mut buffer[done..done + part];
            match self.pages.get(&(at / PAGE as u64)) {
                Some(page) => target.copy_from_slice(&page[inside..inside + part]),
                None => target.fill(0),
            }
            done += part;
        }
        count
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; index(self.len)];
        self.read(0, &mut bytes);
        bytes
    }

    /// A sector, whatever the length says.
    pub(super) fn sector(&self, sector: u64) -> Sector {
        let mut bytes = [0; SECTOR];
        if let Some(page) = self.pages.get(&(sector / SECTORS_A_PAGE)) {
            let inside = index(sector % SECTORS_A_PAGE) * SECTOR;
            bytes.copy_from_slice(&page[inside..inside + SECTOR]);
        }
        bytes
    }

    /// Whether both hold the same bytes; cheap where pages are shared.
    pub(super) fn same(&self, other: &Self) -> bool {
        let zero = [0; PAGE];
        let page = |image: &Self, at: &u64| image.pages.get(at).cloned();
        self.len == other.len
            && self.pages.keys().chain(other.pages.keys()).all(|at| {
                match (page(self, at), page(other, at)) {
                    (Some(a), Some(b)) => Arc::ptr_eq(&a, &b) || a == b,
                    (Some(only), None) | (None, Some(only)) => *only == zero,
                    (None, None) => true,
                }
            })
    }
}

/// One file of the simulated disk.
#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    /// What readers see.
    pub(super) cache: Image,
    /// What is certain to survive.
    pub(super) durable: Image,
    /// Per sector, each content it took since the last sync, oldest first.
    pub(super) dirty: BTreeMap<u64, Vec<Sector>>,
    /// As `dirty`, but given up by a failed sync: may be on the platter, no later sync writes it.
    pub(super) limbo: BTreeMap<u64, Vec<Sector>>,
    /// Lengths taken since the last sync.
    pub(super) lengths: Vec<u64>,
    /// Pages that own blocks: what counts against the capacity.
    pub(super) blocks: BTreeSet<u64>,
    /// A sync failed since the process started: another one is a mistake.
    pub(super) sync_failed: bool,
    /// A lost write will be reported by the next sync.
    pub(super) late_error: bool,
}

impl FileState {
    pub(super) fn at_rest(bytes: &[u8]) -> Self {
        Self::from_image(Image::from_bytes(bytes))
    }

    pub(super) fn from_image(image: Image) -> Self {
        let blocks = (0..image.len.div_ceil(PAGE as u64)).collect();
        Self { durable: image.clone(), cache: image, blocks, ..Self::default() }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.cache.patch(offset, bytes);
        let end = offset + bytes.len() as u64;
        self.grow(end);
        self.blocks.extend(offset / PAGE as u64..end.div_ceil(PAGE as u64));
        for sector in offset / SECTOR as u64..end.div_ceil(SECTOR as u64) {
            self.limbo.remove(&sector);
            self.dirty.entry(sector).or_default().push(self.cache.sector(sector));
        }
    }

    pub(super) fn grow(&mut self, len: u64) {
        if self.cache.len < len {
            self.cache.len = len;
            self.lengths.push(len);
        }
    }

    pub(super) fn allocate(&mut self, len: u64) {
        self.blocks.extend(0..len.div_ceil(PAGE as u64));
        self.grow(len);
    }

    /// Pages that a write of this range would add.
    pub(super) fn new_blocks(&self, offset: u64, len: u64) -> u64 {
        let pages = offset / PAGE as u64..(offset + len).div_ceil(PAGE as u64);
        pages.filter(|page| !self.blocks.contains(page)).count() as u64
    }

    pub(super) fn sync(&mut self) {
        if self.limbo.is_empty() {
            self.durable = self.cache.clone();
        } else {
            for sector in self.dirty.keys() {
                self.durable.patch(sector * SECTOR as u64, &self.cache.sector(*sector));
            }
            self.durable.set_len(self.cache.len);
        }
        self.dirty.clear();
        self.lengths.clear();
    }

    /// A failed sync that threw the pages away: readers see the platter again.
    pub(super) fn drop_dirty(&mut self) {
        for sector in std::mem::take(&mut self.dirty).into_keys() {
            self.cache.patch(sector * SECTOR as u64, &self.durable.sector(sector));
        }
    }

    /// A failed sync that left the pages readable and called them clean.
    pub(super) fn strand_dirty(&mut self) {
        self.limbo.append(&mut self.dirty);
    }
}

/// An offset that fits memory, as every offset in a simulated file does.
pub(super) fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a simulated file fits memory")
}

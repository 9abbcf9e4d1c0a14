//! Which disks a power cut can leave.
//!
//! Every un-synced thing is an axis of its own: each change of a directory is there or not, each
//! file has any of the lengths it took since its sync, each sector has its old content, any of
//! its newer ones, zeros or garbage. Order binds nothing, within a file or across files. The
//! states are the product of the axes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::dice::Dice;
use super::disk::{SimDisk, Store};
use super::image::{FileState, SECTOR, Sector};
use super::names::Entry;

/// Every state a power cut can leave a disk in.
#[derive(Clone, Debug)]
pub struct CrashStates {
    store: Store,
    links: usize,
    axes: Vec<Axis>,
}

/// One option per axis: names a crash state for good, and prints as its recipe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrashChoice(Vec<u32>);

impl fmt::Display for CrashChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&digits.join("."))
    }
}

#[derive(Clone, Debug)]
enum Axis {
    /// A pending change of a directory: 0 lost, 1 kept.
    Link,
    Length {
        file: u64,
        options: Vec<u64>,
    },
    /// 0 is the old content; `newest` is what readers saw.
    Content {
        file: u64,
        sector: u64,
        options: Vec<Sector>,
        newest: usize,
    },
}

impl Axis {
    fn options(&self) -> usize {
        match self {
            Self::Link => 2,
            Self::Length { options, .. } => options.len(),
            Self::Content { options, .. } => options.len(),
        }
    }

    fn newest(&self) -> usize {
        match self {
            Self::Link => 1,
            Self::Length { options, .. } => options.len() - 1,
            Self::Content { newest, .. } => *newest,
        }
    }

    fn end(&self, kept: bool) -> usize {
        if kept { self.newest() } else { 0 }
    }

    /// Axes with the same block go to the platter together in most kernels.
    fn block(&self) -> (u64, u64) {
        match self {
            Self::Link => (u64::MAX, 0),
            Self::Length { file, .. } => (*file, u64::MAX),
            Self::Content { file, sector, .. } => (*file, sector / 8),
        }
    }
}

/// A manner of losing things.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// Each axis on its own.
    Any,
    /// One end, with a few exceptions.
    Mostly { kept: bool, one_in: usize },
    /// One end, with a single exception.
    AllBut { kept: bool, odd: usize },
    /// Page by page: kept, lost, or any mixture.
    Pages,
    /// Chance decides about the names and no data survives, or about the data and all names do.
    Apart { names: bool },
}

impl Style {
    fn draw(dice: &mut Dice, axes: usize) -> Self {
        let kept = dice.one_in(2);
        match dice.below(8) {
            0 => Self::Any,
            1 | 2 => Self::Mostly { kept, one_in: 2 + dice.below(14) },
            3 | 4 => Self::AllBut { kept, odd: dice.below(axes) },
            5 | 6 => Self::Pages,
            _ => Self::Apart { names: kept },
        }
    }
}

impl CrashStates {
    /// The states in which `disk` may come back if the power fails now. With `garbage` each
    /// sector in flight may also hold bytes nobody wrote, the same for the same dice.
    pub fn of(disk: &SimDisk, garbage: Option<&mut Dice>) -> Self {
        let store = disk.store();
        let links = store.names.pending().count();
        let mut axes = vec![Axis::Link; links];
        let mut garbage = garbage;
        for (id, file) in &store.files {
            length_axis(*id, file, &mut axes);
            content_axes(*id, file, garbage.as_deref_mut(), &mut axes);
        }
        Self { store, links, axes }
    }

    /// How many there are; no more than `u128::MAX` are counted.
    pub fn count(&self) -> u128 {
        self.axes
            .iter()
            .try_fold(1_u128, |product, axis| product.checked_mul(axis.options() as u128))
            .unwrap_or(u128::MAX)
    }

    /// Every choice when there are no more than `limit`, otherwise `limit` drawn ones, the two
    /// extremes (all lost, all kept) among them. Without repetition of equal disks.
    pub fn choices(&self, limit: usize, dice: &mut Dice) -> Vec<CrashChoice> {
        let mut seen = BTreeSet::new();
        let mut choices = Vec::new();
        let mut consider = |choice: CrashChoice| {
            if seen.insert(self.essence(&choice)) {
                choices.push(choice);
            }
        };
        if self.count() <= limit as u128 {
            self.each(&mut consider);
        } else {
            consider(self.all_lost());
            consider(self.all_kept());
            for _ in 2..limit {
                consider(self.draw(dice));
            }
        }
        choices
    }

    /// Nothing un-synced survived.
    pub fn all_lost(&self) -> CrashChoice {
        CrashChoice(vec![0; self.axes.len()])
    }

    /// Everything survived, as if the process alone had ended.
    pub fn all_kept(&self) -> CrashChoice {
        CrashChoice(self.axes.iter().map(|axis| number(axis.newest())).collect())
    }

    /// Everything survived in the files for which `keep` says so, and every name; nothing in the
    /// other files.
    pub fn keeping(&self, keep: impl Fn(&str) -> bool) -> CrashChoice {
        let mut kept = BTreeSet::new();
        for (path, entry) in &self.store.names.cache {
            if let Entry::File(file) = entry
                && keep(path)
            {
                kept.insert(*file);
            }
        }
        let end = |axis: &Axis| match axis {
            Axis::Link => axis.newest(),
            Axis::Length { file, .. } | Axis::Content { file, .. } => axis.end(kept.contains(file)),
        };
        CrashChoice(self.axes.iter().map(|axis| number(end(axis))).collect())
    }

    /// A choice in one of several styles, for uniform draws alone would never leave whole pages.
    pub fn draw(&self, dice: &mut Dice) -> CrashChoice {
        if self.axes.is_empty() {
            return self.all_lost();
        }
        let style = Style::draw(dice, self.axes.len());
        let mut blocks = BTreeMap::new();
        let pick = |(at, axis): (usize, &Axis)| {
            let any = dice.below(axis.options());
            let is_link = matches!(axis, Axis::Link);
            number(match style {
                Style::Any => any,
                Style::Mostly { one_in, .. } if dice.one_in(one_in) => any,
                Style::AllBut { odd, .. } if at == odd => any,
                Style::Mostly { kept, .. } | Style::AllBut { kept, .. } => axis.end(kept),
                Style::Pages => match blocks.entry(axis.block()).or_insert_with(|| dice.below(5)) {
                    0 | 1 => axis.end(false),
                    2 | 3 => axis.end(true),
                    _ => any,
                },
                Style::Apart { names } if names == is_link => any,
                Style::Apart { .. } => axis.end(is_link),
            })
        };
        CrashChoice(self.axes.iter().enumerate().map(pick).collect())
    }

    /// The disk as `choice` leaves it, at rest: nothing on it is un-synced.
    pub fn disk(&self, choice: &CrashChoice) -> SimDisk {
        let keep: Vec<bool> = choice.0[..self.links].iter().map(|option| *option == 1).collect();
        let names = self.store.names.after_crash(&keep);
        let mut images: BTreeMap<u64, _> = names
            .values()
            .filter_map(|entry| match entry {
                Entry::File(file) => Some((*file, self.store.files[file].durable.clone())),
                Entry::Dir => None,
            })
            .collect();
        // Lengths come after contents, for bytes behind the end are gone.
        for (axis, option) in self.axes.iter().zip(&choice.0) {
            if let Axis::Content { file, sector, options, .. } = axis
                && let Some(image) = images.get_mut(file)
                && *option != 0
            {
                image.patch(sector * SECTOR as u64, &options[*option as usize]);
            }
        }
        for (axis, option) in self.axes.iter().zip(&choice.0) {
            if let Axis::Length { file, options } = axis
                && let Some(image) = images.get_mut(file)
            {
                image.set_len(options[*option as usize]);
            }
        }
        let at_rest = images.into_iter().map(|(file, mut image)| {
            image.trim();
            (file, Arc::new(FileState::from_image(image)))
        });
        let store = Store::at_rest(names, at_rest.collect(), self.store.next_file());
        let seed = choice
            .0
            .iter()
            .fold(0, |seed: u64, option| seed.wrapping_mul(31).wrapping_add(u64::from(*option)));
        SimDisk::with_store(store, seed)
    }

    /// What of a choice makes a difference: not the bytes of a file whose name is lost, not a
    /// sector behind the end.
    fn essence(&self, choice: &CrashChoice) -> Vec<u32> {
        let keep: Vec<bool> = choice.0[..self.links].iter().map(|option| *option == 1).collect();
        let names = self.store.names.after_crash(&keep);
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        for entry in names.values() {
            if let Entry::File(file) = entry {
                lengths.insert(*file, self.store.files[file].durable.len());
            }
        }
        let mut essence = choice.0.clone();
        for (axis, option) in self.axes.iter().zip(&mut essence) {
            if let Axis::Length { file, options } = axis {
                match lengths.get_mut(file) {
                    Some(length) => *length = options[*option as usize],
                    None => *option = 0,
                }
            }
        }
        for (axis, option) in self.axes.iter().zip(&mut essence) {
            if let Axis::Content { file, sector, .. } = axis
                && lengths.get(file).is_none_or(|length| *length <= sector * SECTOR as u64)
            {
                *option = 0;
            }
        }
        essence
    }

    fn each(&self, consider: &mut impl FnMut(CrashChoice)) {
        let mut choice = self.all_lost();
        loop {
            consider(choice.clone());
            let mut carried = true;
            for (digit, axis) in choice.0.iter_mut().zip(&self.axes) {
                *digit += 1;
                if (*digit as usize) < axis.options() {
                    carried = false;
                    break;
                }
                *digit = 0;
            }
            if carried {
                return;
            }
        }
    }
}

impl SimDisk {
    /// A state the present moment can leave after a power cut, drawn by `seed`; with `garbage` on
    /// a device that may leave bytes nobody wrote in the sectors in flight.
    #[must_use]
    pub fn after_crash(&self, seed: u64, garbage: bool) -> Self {
        let mut dice = Dice::new(seed);
        let mut bytes = garbage.then(|| dice.fork());
        let states = CrashStates::of(self, bytes.as_mut());
        let choice = states.draw(&mut dice);
        states.disk(&choice)
    }
}

fn length_axis(id: u64, file: &FileState, axes: &mut Vec<Axis>) {
    let mut options = vec![file.durable.len()];
    for length in &file.lengths {
        if !options.contains(length) {
            options.push(*length);
        }
    }
    if 1 < options.len() {
        axes.push(Axis::Length { file: id, options });
    }
}

fn content_axes(id: u64, file: &FileState, mut garbage: Option<&mut Dice>, axes: &mut Vec<Axis>) {
    let sectors: BTreeSet<u64> = file.dirty.keys().chain(file.limbo.keys()).copied().collect();
    for sector in sectors {
        let mut options = vec![file.durable.sector(sector)];
        let versions = [&file.limbo, &file.dirty].map(|map| map.get(&sector).into_iter().flatten());
        for version in versions.into_iter().flatten() {
            if !options.contains(version) {
                options.push(*version);
            }
        }
        let seen = file.cache.sector(sector);
        let newest = options.iter().position(|option| *option == seen).unwrap_or(0);
        if options.len() == 1 {
            continue;
        }
        let zero = [0; SECTOR];
        if !options.contains(&zero) {
            options.push(zero);
        }
        if let Some(dice) = garbage.as_deref_mut() {
            let mut bytes = zero;
            dice.fill(&mut bytes);
            options.push(bytes);
        }
        axes.push(Axis::Content { file: id, sector, options, newest });
    }
}

fn number(option: usize) -> u32 {
    u32::try_from(option).expect("an axis has few options")
}

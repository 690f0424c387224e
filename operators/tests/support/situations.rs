//! Situations of assignors that own what they speak of, and all that can be said of small ones.

use std::num::NonZeroU32;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use timely_splits::assignor::{Assignor, Plan, ReaderProfile, Situation, SplitLoad, SplitProfile};
use timely_splits::epoch::ReaderId;

use super::letters::Letter;

/// One situation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Town {
    pub(crate) readers: Vec<ReaderProfile>,
    pub(crate) places: Vec<Place>,
    pub(crate) moved_lately: usize,
}

/// A split in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) split: Letter,
    pub(crate) owner: Option<usize>,
    pub(crate) load: SplitLoad,
    pub(crate) racks: Vec<String>,
}

impl Place {
    pub(crate) fn homeless(index: usize) -> Self {
        let letter = u32::try_from(0x1000 + index).ok().and_then(char::from_u32);
        Self {
            split: Letter(letter.expect("a letter for each")),
            owner: None,
            load: SplitLoad::default(),
            racks: Vec::new(),
        }
    }
}

impl Town {
    /// Splits that nobody has.
    pub(crate) fn new(readers: Vec<ReaderProfile>, splits: usize) -> Self {
        Self {
            readers,
            places: (0..splits).map(Place::homeless).collect(),
            moved_lately: 0,
        }
    }

    pub(crate) fn plan<'a>(&'a self, assignor: &dyn Assignor<Letter>) -> Plan {
        let profile = |place: &'a Place| SplitProfile {
            split: &place.split,
            owner: place.owner,
            load: place.load,
            racks: &place.racks[..],
        };
        let splits: Vec<_> = self.places.iter().map(profile).collect();
        assignor.plan(&Situation {
            readers: &self.readers,
            splits: &splits,
            moved_lately: self.moved_lately,
        })
    }

    /// This situation once a plan is carried out.
    pub(crate) fn after(&self, plan: &Plan) -> Self {
        let mut after = self.clone();
        for (place, reader) in after.places.iter_mut().zip(&plan.readers) {
            place.owner = Some(*reader);
        }
        after
    }

    /// How many splits are taken from a reader.
    pub(crate) fn moves(&self, readers: &[usize]) -> usize {
        let both = self.places.iter().zip(readers);
        both.filter(|(place, reader)| place.owner.is_some_and(|owner| owner != **reader))
            .count()
    }

    pub(crate) fn counts(&self, readers: &[usize]) -> Vec<usize> {
        let mut counts = vec![0; self.readers.len()];
        readers.iter().for_each(|reader| counts[*reader] += 1);
        counts
    }

    pub(crate) fn held(&self) -> Vec<usize> {
        let owners: Vec<_> = self.places.iter().filter_map(|place| place.owner).collect();
        self.counts(&owners)
    }

    /// The least and the greatest count of each reader: its exact share, rounded, and a slack.
    pub(crate) fn bounds(&self, slack: usize) -> Vec<(usize, usize)> {
        let capacities = || {
            self.readers
                .iter()
                .map(|reader| reader.capacity.get() as usize)
        };
        let total: usize = capacities().sum();
        let exact = capacities().map(|capacity| capacity * self.places.len());
        exact
            .map(|exact| {
                let least = (exact / total).saturating_sub(slack);
                (least, exact.div_ceil(total) + slack)
            })
            .collect()
    }

    pub(crate) fn within(&self, readers: &[usize], slack: usize) -> bool {
        let counts = self.counts(readers);
        let bounds = self.bounds(slack).into_iter().zip(counts);
        let mut all = bounds.map(|((least, most), count)| (least..=most).contains(&count));
        all.all(|within| within)
    }

    /// How good a reader's rack is for a split; zero is best.
    pub(crate) fn rank(&self, split: usize, reader: usize) -> usize {
        let racks = &self.places[split].racks;
        let rack = self.readers[reader].rack.as_ref();
        let rank = rack.and_then(|rack| racks.iter().position(|best| best == rack));
        rank.unwrap_or(racks.len())
    }

    /// The most that a reader has for a unit of its capacity, by what splits cost with the default
    /// options: what they bring, a sixtieth of what they are behind by at 100 bytes a step, and the
    /// average of that or 64 KiB.
    pub(crate) fn hottest(&self, readers: &[usize]) -> u64 {
        let brings = |place: &Place| place.load.bytes_per_second + place.load.lag * 100 / 60;
        let all: u64 = self.places.iter().map(brings).sum();
        let each = (all / self.places.len().max(1) as u64).max(64 << 10);
        let mut loads = vec![0; self.readers.len()];
        for (place, reader) in self.places.iter().zip(readers) {
            loads[*reader] += brings(place) + each;
        }
        let loads = loads.iter().zip(&self.readers);
        let heats = loads.map(|(load, reader)| (load << 20) / u64::from(reader.capacity.get()));
        heats.max().unwrap_or(0)
    }
}

/// Towns with up to this many readers and splits.
pub(crate) fn any_town(readers_max: usize, splits_max: usize) -> impl Strategy<Value = Town> {
    vec((1_u32..4, option::of(any_rack())), 1..=readers_max)
        .prop_flat_map(move |readers| {
            let places = vec(any_place(readers.len()), 0..=splits_max);
            (Just(readers), places)
        })
        .prop_map(|(readers, places)| {
            let readers = readers.into_iter().enumerate();
            let profile = |(id, (capacity, rack))| ReaderProfile {
                id: ReaderId(id),
                capacity: NonZeroU32::new(capacity).expect("it is not zero"),
                rack,
            };
            let places = places.into_iter().enumerate();
            let place = |(index, (owner, load, racks))| Place {
                owner,
                load,
                racks,
                ..Place::homeless(index)
            };
            Town {
                readers: readers.map(profile).collect(),
                places: places.map(place).collect(),
                moved_lately: 0,
            }
        })
}

fn any_rack() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["east", "north", "west"]).prop_map(str::to_owned)
}

type AnyPlace = (Option<usize>, SplitLoad, Vec<String>);

fn any_place(readers: usize) -> impl Strategy<Value = AnyPlace> {
    let load = (prop_oneof![Just(0), 0_u64..100 << 20], 0_u64..1_000_000);
    let load = load.prop_map(|(bytes_per_second, lag)| SplitLoad {
        bytes_per_second,
        lag,
    });
    (option::of(0..readers), load, vec(any_rack(), 0..3))
}

/// All ways to give each split a reader.
pub(crate) fn assignments(readers: usize, splits: usize) -> impl Iterator<Item = Vec<usize>> {
    let all = readers.pow(u32::try_from(splits).expect("few splits"));
    (0..all).map(move |number| {
        let digits = (0..splits).scan(number, move |rest, _| {
            let digit = *rest % readers;
            *rest /= readers;
            Some(digit)
        });
        digits.collect()
    })
}

//! What assignors promise, for every small situation and through the coordinator.

#[path = "support/letters.rs"]
mod letters;
#[path = "support/readers.rs"]
mod readers;
#[path = "support/situations.rs"]
mod situations;

use std::time::Duration;

use proptest::prelude::*;
use timely_splits::assignor::{
    self, Assignor, LoadAware, RackAware, ReaderProfile, SplitLoad, Static, StickyBalanced,
};
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::epoch::ReaderId;
use timely_splits::event::SourceEvent;

use letters::{Letter, Letters};
use readers::{Readers, Simple};
use situations::{Place, Town, any_town, assignments};

impl Simple for Letter {
    fn all(metadata: &Letters) -> Vec<Self> {
        metadata.0.iter().copied().collect()
    }
}

const TICK: Duration = Duration::from_millis(100);

fn plain(readers: usize) -> Vec<ReaderProfile> {
    (0..readers)
        .map(|id| ReaderProfile::new(ReaderId(id)))
        .collect()
}

fn start<A: Assignor<Letter>>(readers: usize, assignor: A) -> Readers<Letter, A> {
    Readers::start(CoordinatorOptions::new(readers), assignor, plain(readers))
}

fn spread(counts: &[usize]) -> usize {
    let (most, least) = (counts.iter().max(), counts.iter().min());
    most.zip(least).map_or(0, |(most, least)| most - least)
}

/// The splits of one reader.
fn of_reader<A>(readers: &Readers<Letter, A>, reader: usize) -> String {
    let held = readers.held.iter();
    held.filter(|(_, (holder, _, _))| *holder == ReaderId(reader))
        .map(|(split, _)| split.0)
        .collect()
}

/// One that moves as much as it likes.
fn tireless() -> LoadAware {
    LoadAware {
        moves_a_minute: usize::MAX,
        ..LoadAware::default()
    }
}

fn all() -> [Box<dyn Assignor<Letter>>; 4] {
    [
        Box::new(StickyBalanced),
        Box::new(tireless()),
        Box::new(RackAware::default()),
        Box::new(Static),
    ]
}

proptest! {
    #[test]
    fn a_plan_names_a_reader_for_each_split(town in any_town(6, 40)) {
        for name in assignor::NAMES {
            let assignor = assignor::by_name(name).unwrap();
            let plan = town.plan(&*assignor);
            prop_assert_eq!(plan.readers.len(), town.places.len());
            prop_assert!(plan.readers.iter().all(|reader| *reader < town.readers.len()));
            prop_assert!(plan.hot.iter().all(|split| *split < town.places.len()));
        }
    }

    #[test]
    fn a_plan_of_its_own_result_changes_nothing(town in any_town(6, 40)) {
        for assignor in all() {
            let plan = town.plan(&*assignor);
            let again = town.after(&plan).plan(&*assignor);
            prop_assert_eq!(again, plan);
        }
    }

    #[test]
    fn sticky_counts_are_shares_rounded_up_or_down(town in any_town(8, 60)) {
        let plan = town.plan(&StickyBalanced);
        prop_assert!(town.within(&plan.readers, 0));
    }

    #[test]
    fn sticky_moves_no_more_than_the_best_of_all_balanced_assignments(town in any_town(4, 6)) {
        let plan = town.plan(&StickyBalanced);
        let balanced = assignments(town.readers.len(), town.places.len())
            .filter(|readers| town.within(readers, 0));
        let fewest = balanced.map(|readers| town.moves(&readers)).min().unwrap();
        prop_assert_eq!(town.moves(&plan.readers), fewest);
    }

    /// Between readers that were there before nothing moves.
    #[test]
    fn a_reader_more_takes_from_the_others_and_changes_nothing_else(
        readers in 1_usize..8, splits in 0_usize..60,
    ) {
        let town = Town::new(plain(readers), splits);
        let before = town.after(&town.plan(&StickyBalanced));
        let grown = Town { readers: plain(readers + 1), ..before.clone() };
        let plan = grown.plan(&StickyBalanced);
        for (place, reader) in before.places.iter().zip(plan.readers) {
            prop_assert!(Some(reader) == place.owner || reader == readers);
        }
    }

    /// With unequal capacities a split may go from one to another, since counts are whole.
    #[test]
    fn more_capacity_of_one_reader_gives_no_other_more_than_its_share_was(
        town in any_town(6, 40), more in 1_u32..5,
    ) {
        let before = town.after(&town.plan(&StickyBalanced));
        let mut grown = before.clone();
        grown.readers[0].capacity = grown.readers[0].capacity.saturating_add(more);
        let counts = grown.counts(&grown.plan(&StickyBalanced).readers);
        for (reader, (_, most)) in before.bounds(0).into_iter().enumerate().skip(1) {
            prop_assert!(counts[reader] <= most);
        }
    }

    /// Otherwise the coordinator would not plan where it has to, or would for nothing.
    #[test]
    fn splits_are_placed_alone_exactly_if_nothing_else_has_to_move(
        town in any_town(6, 40), more in 0_usize..10,
    ) {
        let mut town = town;
        town.places.retain(|place| place.owner.is_some());
        let held = town.held();
        let placed = Assignor::<Letter>::place(&StickyBalanced, &town.readers, &held, more);
        for index in 0..more {
            town.places.push(Place::homeless(900 + index));
        }
        let moves = town.moves(&town.plan(&StickyBalanced).readers);
        prop_assert_eq!(placed.is_some(), moves == 0);
        if let Some(placed) = placed {
            let owners = town.places.iter().filter_map(|place| place.owner);
            let whole: Vec<_> = owners.chain(placed).collect();
            prop_assert_eq!(whole.len(), town.places.len());
            prop_assert!(town.within(&whole, 0));
        }
    }

    #[test]
    fn load_aware_moves_within_its_budget_and_never_heats_the_hottest(
        town in any_town(6, 40), moved_lately in 0_usize..14,
    ) {
        let mut town = town;
        town.places.retain(|place| place.owner.is_some());
        town.moved_lately = moved_lately;
        let plan = town.plan(&LoadAware::default());
        prop_assert!(town.moves(&plan.readers) <= 10_usize.saturating_sub(moved_lately));
        let before: Vec<_> = town.places.iter().filter_map(|place| place.owner).collect();
        prop_assert!(town.hottest(&plan.readers) <= town.hottest(&before));
    }

    /// It comes to rest also if it may move one split at a time, and each plan sees the last one's
    /// result.
    #[test]
    fn load_aware_comes_to_rest(town in any_town(6, 24)) {
        let patient = LoadAware { moves_a_minute: 1, ..LoadAware::default() };
        let mut town = town;
        let mut plans = 0;
        loop {
            let next = town.after(&town.plan(&patient));
            if next == town {
                break;
            }
            town = next;
            plans += 1;
            prop_assert!(plans <= 10 * town.places.len() + 1, "it goes on for ever");
        }
    }

    #[test]
    fn a_rack_is_preferred_only_within_the_bounds(town in any_town(6, 40), slack in 0_usize..3) {
        let plan = town.plan(&RackAware { slack });
        prop_assert!(town.within(&plan.readers, slack));
    }

    #[test]
    fn no_single_move_within_the_bounds_brings_a_split_to_a_better_rack(
        town in any_town(5, 12), slack in 0_usize..3,
    ) {
        let readers = town.plan(&RackAware { slack }).readers;
        for split in 0..readers.len() {
            for reader in 0..town.readers.len() {
                let mut other = readers.clone();
                other[split] = reader;
                let nearer = town.rank(split, reader) < town.rank(split, readers[split]);
                prop_assert!(!(nearer && town.within(&other, slack)), "{split} to {reader}");
            }
        }
    }

    #[test]
    fn static_looks_at_the_split_and_the_readers_alone(town in any_town(6, 40)) {
        let plan = town.plan(&Static);
        let mut other = town.clone();
        other.places.retain(|place| (place.split.0 as u32).is_multiple_of(2));
        other.places.iter_mut().for_each(|place| place.owner = None);
        let alone = other.plan(&Static);
        let kept = town.places.iter().zip(&plan.readers);
        let kept = kept.filter(|(place, _)| (place.split.0 as u32).is_multiple_of(2));
        prop_assert_eq!(kept.map(|(_, reader)| *reader).collect::<Vec<_>>(), alone.readers);
    }

    #[test]
    fn the_order_in_which_readers_and_splits_come_makes_no_difference(
        order in Just(plain(5)).prop_shuffle(), splits in 0_u8..40,
    ) {
        let letters: String = (0..splits).map(|index| char::from(b'A' + index)).collect();
        for (one, other) in all().into_iter().zip(all()) {
            // What is found one by one and planned at once is placed one by one.
            let mut options = CoordinatorOptions::new(5);
            options.plan_debounce = TICK;
            let mut straight = Readers::start(options, one, plain(5));
            let mut shuffled = Readers::start(options, other, order.clone());
            shuffled.backwards = true;
            straight.metadata(Letters::of(&letters));
            shuffled.metadata(Letters::of(&letters));
            straight.pass(TICK);
            shuffled.pass(TICK);
            prop_assert_eq!(straight.counts(), shuffled.counts());
            prop_assert_eq!(straight.held, shuffled.held);
        }
    }
}

/// S2: `a` to `c` are of one cluster and `d` to `f` of another.
#[test]
fn six_splits_of_two_clusters_on_four_workers_have_one_owner_each_and_spread() {
    let mut readers = start(4, StickyBalanced);

    readers.metadata(Letters::of("abcdef"));

    assert_eq!(readers.held.len(), 6, "each is assigned, and to one reader");
    assert_eq!(spread(&readers.counts()), 1);
    assert_eq!(readers.revoked, []);
}

/// S32: what is left after a removal is with one worker, and is spread before the rest comes back.
#[test]
fn splits_that_come_back_after_the_rest_was_spread_fill_what_is_free() {
    let mut readers = start(4, StickyBalanced);
    let all: String = ('a'..='p').collect();
    readers.metadata(Letters::of(&all));
    let left = of_reader(&readers, 2);
    readers.metadata(Letters::of(&left));
    assert_eq!(readers.counts(), [0, 0, 4, 0]);
    readers.pass(readers.options.calm_for);
    assert_eq!(readers.counts(), [1; 4]);

    readers.metadata(Letters::of(&all));
    readers.pass(readers.options.calm_for);

    assert_eq!(readers.counts(), [4; 4]);
    assert_eq!(readers.revoked.len(), 3, "the fewest that spread four");
}

/// S32: nothing at all has to move if the rest comes back at once.
#[test]
fn splits_that_come_back_at_once_fill_what_is_free_without_a_move() {
    let mut readers = start(4, StickyBalanced);
    let all: String = ('a'..='p').collect();
    readers.metadata(Letters::of(&all));

    let left = of_reader(&readers, 2);
    readers.metadata(Letters::of(&left));
    let alone = readers.counts();
    readers.metadata(Letters::of(&all));
    readers.pass(readers.options.calm_for);

    assert_eq!(alone, [0, 0, 4, 0]);
    assert_eq!(readers.counts(), [4; 4]);
    assert_eq!(readers.revoked, []);
}

/// C24: each row of letters is a cluster.
#[test]
fn the_skew_after_a_cluster_is_removed_is_repaired_by_the_fewest_moves() {
    let clusters = ["abcdefg", "hijklmn", "opqrstu"];
    for removed in 0..3 {
        let mut readers = start(8, StickyBalanced);
        readers.metadata(Letters::of(&clusters.concat()));
        assert!(spread(&readers.counts()) <= 1);

        let rest = [clusters[(removed + 1) % 3], clusters[(removed + 2) % 3]].concat();
        readers.metadata(Letters::of(&rest));
        let skewed = readers.counts();
        readers.pass(readers.options.calm_for);

        assert!(spread(&readers.counts()) <= 1, "{:?}", readers.counts());
        // 14 on 8: six readers have two and two have one, so what is beyond two has to go, and what
        // is missing to one has to come.
        let beyond: usize = skewed.iter().map(|count| count.saturating_sub(2)).sum();
        let missing = skewed.iter().filter(|count| **count == 0).count();
        let ones = skewed.iter().filter(|count| **count == 1).count();
        let fewest = beyond.max(missing).max((missing + ones).saturating_sub(2));
        assert_eq!(readers.revoked.len(), fewest, "from {skewed:?}");
    }
}

/// Reads `a` to `p` for 10,000 ticks, with rates that every ten seconds are others, by up to `noise`
/// percent more or less than `mean`; also returns how many splits were revoked in the last nine of
/// ten parts.
fn noisy(
    assignor: LoadAware,
    noise: u64,
    mean: fn(char) -> u64,
) -> (Readers<Letter, LoadAware>, usize) {
    let mut readers = start(4, assignor);
    readers.metadata(Letters::of("abcdefghijklmnop"));
    let mut random: u64 = 7;
    let mut late = 0;
    for tick in 0..10_000 {
        for letter in ('a'..='p').filter(|_| tick % 100 == 0) {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let percent = 100 - noise + (random >> 33) % (2 * noise);
            let rate = mean(letter) * percent / 100;
            readers.rates.insert(Letter(letter), rate);
        }
        let before = readers.revoked.len();
        readers.pass(TICK);
        if tick >= 1_000 {
            late += readers.revoked.len() - before;
        }
    }
    (readers, late)
}

/// C23.
#[test]
fn a_split_with_nearly_all_bytes_is_isolated_and_reported_and_then_all_is_at_rest() {
    let mean = |letter| if letter == 'a' { 9_500_000 } else { 33_000 };
    let (readers, late) = noisy(LoadAware::default(), 25, mean);

    let alone = readers.held[&Letter('a')].0;
    let counts = readers.counts();
    assert_eq!(counts[alone.0], 1);
    assert_eq!(counts.iter().max(), Some(&5), "the others are spread");
    assert_eq!(
        readers.revoked.len(),
        3,
        "only what it shared its reader with had to go"
    );
    assert_eq!(late, 0);
    let hot = readers.told.iter().filter_map(|event| match event {
        SourceEvent::SplitHot { split, .. } => Some(*split),
        _ => None,
    });
    assert_eq!(hot.collect::<Vec<_>>(), [Letter('a')], "told once");
}

/// What each of 16 splits brings in a tick: from 100 KB to 1.6 MB.
fn staggered(letter: char) -> u64 {
    100_000 * (u64::from(letter) - u64::from('a') + 1)
}

#[test]
fn rates_that_go_up_and_down_by_a_fifth_move_nothing_once_all_is_balanced() {
    let (readers, late) = noisy(LoadAware::default(), 20, staggered);

    assert_eq!(late, 0);
    let mut loads = [0; 4];
    for (split, (reader, _, _)) in &readers.held {
        loads[reader.0] += usize::try_from(staggered(split.0)).unwrap();
    }
    assert!(spread(&loads) < 1_500_000, "{loads:?}");
}

/// The tests above can fail.
#[test]
fn without_hysteresis_the_same_rates_move_splits_again_and_again() {
    let restless = LoadAware {
        hysteresis_percent: 0,
        ..tireless()
    };

    let (_, late) = noisy(restless, 20, staggered);

    assert!(late > 10, "{late}");
}

#[test]
fn of_splits_that_bring_the_same_those_that_are_behind_weigh_more() {
    let mut town = Town::new(plain(2), 4);
    for (index, place) in town.places.iter_mut().enumerate() {
        place.owner = Some(index / 2);
        place.load.bytes_per_second = 1 << 20;
    }
    assert_eq!(town.moves(&town.plan(&tireless()).readers), 0);

    for place in &mut town.places[..2] {
        place.load.lag = 10_000_000;
    }

    let readers = town.plan(&tireless()).readers;
    assert_ne!(
        readers[0], readers[1],
        "what is behind is spread: {readers:?}"
    );
}

#[test]
fn readers_that_are_nearly_as_hot_stay_as_they_are() {
    let mut town = Town::new(plain(2), 42);
    for (index, place) in town.places.iter_mut().enumerate() {
        place.owner = Some(usize::from(index >= 23));
        place.load.bytes_per_second = 1 << 20;
    }
    let strict = LoadAware {
        hysteresis_percent: 0,
        ..tireless()
    };

    // 23 and 19 differ by less than a fifth of 21.
    assert_eq!(town.moves(&town.plan(&tireless()).readers), 0);
    assert_eq!(town.moves(&town.plan(&strict).readers), 2);
}

#[test]
fn a_reader_that_comes_back_without_splits_gets_some_although_nothing_is_known_of_loads() {
    let mut town = Town::new(plain(4), 40);
    for (index, place) in town.places.iter_mut().enumerate() {
        place.owner = Some(index % 3);
        place.load = SplitLoad::default();
    }

    let counts = town.counts(&town.plan(&tireless()).readers);

    assert!(
        counts[3] >= 8 && counts.iter().max() <= Some(&11),
        "{counts:?}"
    );
}

#[test]
fn splits_are_read_in_their_rack_if_there_is_room() {
    let mut town = Town::new(plain(4), 8);
    for (reader, rack) in town
        .readers
        .iter_mut()
        .zip(["east", "east", "west", "west"])
    {
        reader.rack = Some(rack.to_owned());
    }
    for (index, place) in town.places.iter_mut().enumerate() {
        let rack = if index % 2 == 0 { "west" } else { "east" };
        place.racks = vec!["north".to_owned(), rack.to_owned()];
    }

    let readers = town.plan(&RackAware { slack: 0 }).readers;

    assert_eq!(town.counts(&readers), [2; 4]);
    let far = (0..8).filter(|split| town.rank(*split, readers[*split]) != 1);
    assert_eq!(far.count(), 0, "{readers:?}");
}

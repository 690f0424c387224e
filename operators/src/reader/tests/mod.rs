//! The readers' state, driven message by message.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::assignor::ReaderProfile;
use crate::epoch::{Incarnation, MetadataEpoch, ReaderId, SplitEpoch};
use crate::fetcher::{DownCause, FetcherDown};
use crate::health::FailureKind;
use crate::letters::{Letter, Letters};
use crate::protocol::{
    Assignment, Configuration, Directive, ReleaseReason, Replay, ReplaySplit, Report,
};
use crate::tick::Tick;

mod walk;

type State = ReaderState<Letter, ()>;

const NOW: Duration = Duration::from_secs(1);
const A: Letter = Letter('a');

/// A reader in tick 1 that holds `a` under split epoch 1 from position 10 on.
fn reading_a() -> State {
    reading_a_on(ReaderId(3))
}

fn reading_a_on(reader: ReaderId) -> State {
    let mut state = State::new(
        ReaderProfile::new(reader),
        ReaderOptions::default(),
        Configuration::new(),
    );
    metadata(&mut state, 1, "ab");
    tick(&mut state, None, 1, false);
    assign(&mut state, 1, 10);
    actions(&mut state);
    state
}

fn metadata(state: &mut State, epoch: u64, letters: &str) {
    state.handle_directive(
        Directive::Metadata {
            incarnation: Incarnation(1),
            epoch: MetadataEpoch(epoch),
            metadata: Letters::of(letters),
        },
        NOW,
    );
}

fn assign(state: &mut State, split_epoch: u64, start: u64) {
    state.handle_directive(
        Directive::Assign(Assignment {
            split: A,
            split_epoch: SplitEpoch(split_epoch),
            metadata_epoch: MetadataEpoch(1),
            start,
            stop: None,
        }),
        NOW,
    );
}

fn tick(state: &mut State, close: Option<u64>, open: u64, last: bool) {
    tick_at(state, close, open, last, NOW);
}

fn tick_at(state: &mut State, close: Option<u64>, open: u64, last: bool, now: Duration) {
    let directive = Directive::Tick {
        close: close.map(Tick),
        open: Tick(open),
        last,
    };
    state.handle_directive(directive, now);
}

fn piece(split_epoch: u64, start: u64, end: u64) -> Piece<Letter, ()> {
    Piece {
        split: A,
        split_epoch: SplitEpoch(split_epoch),
        start,
        end,
        bytes: 1,
        batch: Some(()),
    }
}

fn actions(state: &mut State) -> Vec<ReaderAction<Letter>> {
    std::iter::from_fn(|| state.poll()).collect()
}

fn released(split_epoch: u64, next: u64, why: ReleaseReason) -> ReaderAction<Letter> {
    ReaderAction::Report(Report::Released {
        reader: ReaderId(3),
        split: A,
        split_epoch: SplitEpoch(split_epoch),
        next,
        why,
    })
}

#[test]
fn a_piece_is_emitted_only_where_the_last_one_ended() {
    let mut state = reading_a();

    assert_eq!(state.handle_piece(&piece(1, 10, 12), NOW), Verdict::Emit);
    assert_eq!(state.handle_piece(&piece(1, 10, 12), NOW), Verdict::Drop);
    assert_eq!(state.handle_piece(&piece(1, 12, 13), NOW), Verdict::Emit);
}

/// C3.
#[test]
fn a_piece_of_an_assignment_that_is_over_is_dropped() {
    let mut state = reading_a();
    let revoke = Directive::Revoke {
        split: A,
        split_epoch: SplitEpoch(1),
    };
    state.handle_directive(revoke, NOW);
    assert_eq!(state.handle_piece(&piece(1, 10, 12), NOW), Verdict::Drop);

    assign(&mut state, 2, 10);

    assert_eq!(state.handle_piece(&piece(1, 10, 12), NOW), Verdict::Drop);
    assert_eq!(state.handle_piece(&piece(2, 10, 12), NOW), Verdict::Emit);
}

/// C2: what is reported is what was emitted, whatever was fetched.
#[test]
fn a_release_says_what_was_emitted_and_stops_the_fetcher() {
    let mut state = reading_a();
    state.handle_piece(&piece(1, 10, 12), NOW);

    let revoke = Directive::Revoke {
        split: A,
        split_epoch: SplitEpoch(1),
    };
    state.handle_directive(revoke, NOW);

    assert_eq!(
        actions(&mut state),
        [
            ReaderAction::Unfetch(A, SplitEpoch(1)),
            released(1, 12, ReleaseReason::Revoked)
        ]
    );
}

#[test]
fn metadata_that_does_not_list_a_split_releases_it_before_the_fetcher_hears_of_it() {
    let mut state = reading_a();

    metadata(&mut state, 2, "b");

    let done = actions(&mut state);
    assert_eq!(done[0], ReaderAction::Unfetch(A, SplitEpoch(1)));
    assert_eq!(done[1], released(1, 10, ReleaseReason::NotListed));
    assert!(matches!(done[2], ReaderAction::Adopt(MetadataEpoch(2), _)));
    assert_eq!(state.handle_piece(&piece(1, 10, 12), NOW), Verdict::Drop);
}

/// C11.
#[test]
fn an_assignment_of_a_split_that_is_not_listed_is_handed_back_as_it_came() {
    let mut state = reading_a();
    metadata(&mut state, 2, "");
    actions(&mut state);

    assign(&mut state, 2, 17);

    let handed_back = released(2, 17, ReleaseReason::NotListed);
    assert_eq!(actions(&mut state), [handed_back]);
}

#[test]
fn a_gap_that_the_fetcher_left_is_read_again() {
    let mut state = reading_a();

    assert_eq!(state.handle_piece(&piece(1, 12, 14), NOW), Verdict::Drop);
    actions(&mut state);
    let due = state.poll_timeout().expect("it is tried again");
    state.handle_time(due);

    let again = ReaderAction::Fetch(A, SplitEpoch(1), 10);
    assert_eq!(actions(&mut state), [again]);
}

/// The records after 12 were never read: the fetcher believed that it had brought them.
#[test]
fn a_piece_that_overlaps_what_was_emitted_is_read_again_from_there() {
    let mut state = reading_a();
    state.handle_piece(&piece(1, 10, 12), NOW);

    assert_eq!(state.handle_piece(&piece(1, 10, 14), NOW), Verdict::Drop);
    actions(&mut state);
    let due = state.poll_timeout().expect("it is tried again");
    state.handle_time(due);

    let again = ReaderAction::Fetch(A, SplitEpoch(1), 12);
    assert_eq!(actions(&mut state), [again]);
}

#[test]
fn failures_in_a_row_are_retried_later_and_later_and_a_record_ends_the_row() {
    let mut state = reading_a();
    let down = || FetcherDown {
        split: A,
        split_epoch: SplitEpoch(1),
        cause: DownCause::Failed(FailureKind::Transient),
        message: String::new(),
    };
    let mut delays = Vec::new();
    for _ in 0..8 {
        state.handle_down(down(), NOW);
        let due = state.poll_timeout().expect("it is tried again");
        delays.push((due - NOW).as_millis());
        state.handle_time(due);
    }
    assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);

    state.handle_piece(&piece(1, 10, 12), NOW);
    state.handle_down(down(), NOW);

    assert_eq!(state.poll_timeout(), Some(NOW + Duration::from_millis(100)));
}

/// A split whose fetcher had stopped once and then hung was never read again.
#[test]
fn a_split_that_brings_nothing_after_a_failure_is_read_again_too() {
    let mut state = reading_a();
    state.handle_down(
        FetcherDown {
            split: A,
            split_epoch: SplitEpoch(1),
            cause: DownCause::Crashed,
            message: String::new(),
        },
        NOW,
    );
    let due = state.poll_timeout().expect("it is tried again");
    state.handle_time(due);
    assert_eq!(state.poll_timeout(), None);

    let stuck = due + ReaderOptions::default().stuck_after;
    tick_at(&mut state, Some(1), 2, false, stuck);
    state.handle_lags(vec![(A, SplitEpoch(1), 5)], stuck);

    assert!(state.poll_timeout().is_some());
}

#[test]
fn reading_goes_on_while_ticks_wait_and_stops_after_the_last() {
    let mut state = reading_a();
    for closed in 1..10 {
        tick(&mut state, Some(closed), closed + 1, false);
        assert_eq!(state.open(), Some(Tick(closed + 1)));
    }
    tick(&mut state, Some(10), 11, true);
    assert_eq!(state.open(), None);
    actions(&mut state);

    state.handle_directive(Directive::Durable(Tick(10)), NOW);

    assert_eq!(actions(&mut state), [ReaderAction::Finish]);
}

/// All readers held it once, so that each of them was woken for every tick that was durable, and woke all
/// others when it let go.
#[test]
fn one_reader_holds_the_oldest_tick_that_is_not_durable_and_the_others_that_which_is_open() {
    let lets_go = |state: &mut State| {
        let mut all = actions(state);
        all.retain(|action| !matches!(action, ReaderAction::Report(_)));
        all
    };
    let mut other = reading_a();
    tick(&mut other, Some(1), 20, false);
    assert_eq!(lets_go(&mut other), [ReaderAction::Downgrade(Tick(20))]);

    let mut keeper = reading_a_on(ReaderId::KEEPER);
    tick(&mut keeper, Some(1), 20, false);
    tick(&mut keeper, Some(20), 30, false);
    assert_eq!(lets_go(&mut keeper), []);
    for (durable, oldest) in [(1, 20), (20, 30)] {
        keeper.handle_directive(Directive::Durable(Tick(durable)), NOW);
        assert_eq!(
            lets_go(&mut keeper),
            [ReaderAction::Downgrade(Tick(oldest))]
        );
    }
}

#[test]
fn a_close_reports_each_assignment_of_the_tick_by_itself() {
    let mut state = reading_a();
    state.handle_piece(&piece(1, 10, 12), NOW);
    let revoke = Directive::Revoke {
        split: A,
        split_epoch: SplitEpoch(1),
    };
    state.handle_directive(revoke, NOW);
    assign(&mut state, 3, 15);
    state.handle_piece(&piece(3, 15, 16), NOW);
    actions(&mut state);

    tick(&mut state, Some(1), 2, false);

    let done = actions(&mut state);
    let ReaderAction::Report(Report::Closed { moved, .. }) = &done[0] else {
        panic!("{done:?}");
    };
    let said: Vec<_> = (moved.iter())
        .map(|moved| (moved.split_epoch.0, moved.range.from, moved.range.to))
        .collect();
    assert_eq!(said, [(1, 10, 12), (3, 15, 16)]);
}

/// What is given again counts as moved: a split that came all the time was taken for stuck half a minute
/// after it was assigned, and read again and again.
#[test]
fn a_split_that_is_given_again_is_not_stuck() {
    let stuck_after = ReaderOptions::default().stuck_after;
    let mut state = State::new(
        ReaderProfile::new(ReaderId(3)),
        ReaderOptions::default(),
        Configuration::new(),
    );
    metadata(&mut state, 1, "ab");
    state.handle_directive(Directive::BeginReplay(Tick(5)), NOW);
    assign(&mut state, 1, 10);
    let lag = || vec![(A, SplitEpoch(1), 5)];
    let downs = |reader: &mut State| {
        let is_down = |action: &ReaderAction<Letter>| {
            matches!(action, ReaderAction::Report(Report::FetcherDown { .. }))
        };
        actions(reader)
            .iter()
            .filter(|action| is_down(action))
            .count()
    };

    // It waited for long to be told how far it may be read, and is read from then on.
    let told = NOW + stuck_after * 2;
    state.handle_lags(lag(), told);
    let replay = Replay {
        ticks: vec![Tick(5), Tick(6)],
        splits: vec![ReplaySplit {
            split: A,
            split_epoch: SplitEpoch(1),
            ends: vec![(Tick(5), 12), (Tick(6), 20)],
        }],
        errors: Vec::new(),
    };
    state.handle_directive(Directive::Replay(replay), told);
    state.handle_lags(lag(), told);
    let moved = told + stuck_after / 2;
    state.replayed(&A, &12, moved);
    state.handle_lags(lag(), told + stuck_after);
    assert_eq!(downs(&mut state), 0);

    state.handle_lags(lag(), moved + stuck_after);

    assert_eq!(downs(&mut state), 1);
}

/// Every second all splits were looked at and all were told, which took more of a worker than all else
/// that an idle source does.
#[test]
fn splits_that_stay_at_their_ends_are_looked_at_in_turn_and_told_once() {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let mut state = State::new(
        ReaderProfile::new(ReaderId(3)),
        ReaderOptions::default(),
        Configuration::new(),
    );
    metadata(&mut state, 1, letters);
    tick(&mut state, None, 1, false);
    for split in letters.chars().map(Letter) {
        let assignment = Assignment {
            split,
            split_epoch: SplitEpoch(1),
            metadata_epoch: MetadataEpoch(1),
            start: 10,
            stop: None,
        };
        state.handle_directive(Directive::Assign(assignment), NOW);
    }
    // The first splits that are looked at, and how many are told.
    let look = |reader: &mut State, lag_of: &dyn Fn(Letter) -> u64| {
        let due = reader.due_for_lag();
        let lags = due
            .iter()
            .map(|(split, epoch, _)| (*split, *epoch, lag_of(*split)));
        reader.handle_lags(lags.collect(), NOW);
        let told = actions(reader).into_iter().map(|action| match action {
            ReaderAction::Report(Report::Progress { lags: told, .. }) => told.len(),
            _ => 0,
        });
        let told: usize = told.sum();
        let due: BTreeSet<Letter> = due.into_iter().map(|(split, ..)| split).collect();
        (due, told)
    };

    // All came; from then on, what lags and moves, and all others within ten turns.
    assert_eq!(look(&mut state, &|_| 0), (Letters::of(letters).0, 26));
    let mut seen = BTreeSet::new();
    for _ in 0..10 {
        let (due, told) = look(&mut state, &|_| 0);
        assert!(due.len() <= 3 && told == 0, "{due:?}, {told} told");
        seen.extend(due);
    }
    assert_eq!(seen, Letters::of(letters).0);
    assert_eq!(state.handle_piece(&piece(1, 10, 12), NOW), Verdict::Emit);
    tick(&mut state, Some(1), 2, false);
    for lag in [5, 4, 0] {
        let (due, told) = look(&mut state, &|split| if split == A { lag } else { 0 });
        assert!(due.contains(&A) && due.len() <= 4, "{due:?}");
        assert_eq!(told, 1);
    }
}

/// A user who stopped for longer than that had all splits read again when they went on, and those that were
/// not the first to come after it as well.
#[test]
fn a_split_is_not_stuck_while_there_is_no_room() {
    let mut state = reading_a();
    let stuck_after = ReaderOptions::default().stuck_after;
    let lag = || vec![(A, SplitEpoch(1), 5)];
    state.handle_full(false, NOW);
    tick_at(&mut state, Some(1), 2, false, NOW + 3 * stuck_after);
    state.handle_lags(lag(), NOW + 3 * stuck_after);
    assert_eq!(state.poll_timeout(), None, "nothing could be emitted");

    let room_at = NOW + 4 * stuck_after;
    state.handle_room(room_at);
    tick_at(&mut state, Some(2), 3, false, room_at + stuck_after / 2);
    state.handle_lags(lag(), room_at + stuck_after / 2);
    assert_eq!(
        state.poll_timeout(),
        None,
        "it was not asked for until then"
    );

    tick_at(&mut state, Some(3), 4, false, room_at + stuck_after);
    state.handle_lags(lag(), room_at + stuck_after);
    assert!(state.poll_timeout().is_some());
}

#[test]
fn a_full_tick_is_told_once_and_only_if_closing_it_makes_room() {
    let mut state = reading_a();
    let told = |reader: &mut State| {
        let all = actions(reader);
        let full = all.into_iter().filter_map(|action| match action {
            ReaderAction::Report(Report::Full { tick, .. }) => Some(tick),
            _ => None,
        });
        full.collect::<Vec<_>>()
    };

    state.handle_full(false, NOW);
    assert_eq!(told(&mut state), []);
    state.handle_full(true, NOW);
    state.handle_full(true, NOW);
    assert_eq!(told(&mut state), [Tick(1)]);
    tick(&mut state, Some(1), 2, false);
    state.handle_full(true, NOW);
    assert_eq!(told(&mut state), [Tick(2)]);
}

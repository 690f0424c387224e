//! The operator around [`ReaderState`].

use std::time::Duration;

use timely::Accountable;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Stream, StreamVec};
use timely::progress::operate::FrontierInterest;

use super::action::{ReaderAction, Verdict};
use super::room::Room;
use super::state::ReaderState;
use super::{Admission, AdmissionHook};
use crate::assignor::ReaderProfile;
use crate::binding::SplitError;
use crate::clock::{self, Alarm};
use crate::epoch::ReaderId;
use crate::event::SourceEvent;
use crate::fetcher::{Fetched, Piece, Polled, Prepared, SplitFetcher};
use crate::health::{FailureKind, Health, HealthStatus};
use crate::kill_point::{self, KillPoint};
use crate::port::{ContainerPort, ItemPort, Port, message_time};
use crate::protocol::{Directive, Report};
use crate::source::SourceOptions;
use crate::split::Split;
use crate::tick::{SourceTime, Tick};
use crate::wake::Waker;

/// How soon the operator looks again whether the user has made room, or a held back piece is admitted.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How soon the operator looks again whether the user has dealt with what was lent to it, and another source
/// may wait for.
const GIVE_BACK_WITHIN: Duration = Duration::from_millis(50);

/// How often a reader tells how far behind its splits are.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What a reader is made of.
pub(crate) struct ReaderParts<'a, T: SourceTime, S: Split, F: SplitFetcher<S>> {
    pub(crate) options: &'a SourceOptions<T, S>,
    pub(crate) admission: Option<AdmissionHook<S, F::Batch>>,
    pub(crate) fetcher: Box<dyn FnOnce(Waker) -> F + 'a>,
}

/// The streams of a reader.
pub(crate) struct ReaderOutputs<'scope, T: SourceTime, S: Split, B> {
    pub(crate) batches: Stream<'scope, T, B>,
    pub(crate) errors: StreamVec<'scope, T, SplitError<S>>,
    pub(crate) health: StreamVec<'scope, T, Health>,
    pub(crate) reports: StreamVec<'scope, T, Report<S>>,
}

/// Reads the splits that `directives` give to this worker.
///
/// # Frontier
///
/// The frontier of batches, errors and health is the oldest tick that is not over: the reader beside
/// the enumerator [keeps](ReaderId::KEEPER) it. All hold the open tick, whether they hold a split or not:
/// any split can be given to any worker then, and no capability ever travels. The frontier of reports is the
/// minimum until the last tick is durable.
pub(crate) fn reader<'scope, T: SourceTime, S: Split, F: SplitFetcher<S>>(
    directives: StreamVec<'scope, T, (ReaderId, Directive<S>)>,
    parts: ReaderParts<'_, T, S, F>,
) -> ReaderOutputs<'scope, T, S, F::Batch> {
    let scope = directives.scope();
    let options = parts.options.clone();
    let mut builder = OperatorBuilder::new(format!("{}: reader", options.name), scope);
    let address = builder.operator_info().address;
    let waker = Waker::new(scope.worker().sync_activator_for(address.to_vec()));
    let alarm = Alarm::new(scope.activator_for(address));
    let route = Exchange::new(|(reader, _): &(ReaderId, Directive<S>)| reader.0 as u64);
    let mut directives = builder.new_input_connection(directives, route, []);
    builder.set_notify_for(0, FrontierInterest::Never);
    let (batch_port, batches) = Port::new(&mut builder);
    let (error_port, errors) = Port::new(&mut builder);
    let (health_port, health) = Port::new(&mut builder);
    let (report_port, reports) = Port::new(&mut builder);

    options.control.listen(waker.clone());
    let profile = ReaderProfile {
        id: ReaderId(scope.index()),
        capacity: options.capacity,
        rack: options.rack.clone(),
    };
    let mut operator = ReaderOperator {
        id: profile.id,
        state: ReaderState::new(profile, options.reading(), options.configuration.clone()),
        fetcher: (parts.fetcher)(waker.clone()),
        fetched: Vec::new(),
        batches: batch_port,
        errors: error_port,
        health: health_port,
        reports: report_port,
        room: Room::new(&options),
        alarm,
        progress_due: Duration::ZERO,
        parked_by_replay: false,
        options,
    };
    let mut admission = parts.admission;
    builder.build(move |capabilities| {
        let mut capabilities = capabilities.into_iter();
        operator.batches.hold(&mut capabilities);
        operator.errors.hold(&mut capabilities);
        operator.health.hold(&mut capabilities);
        operator.reports.hold(&mut capabilities);
        move |_frontiers| {
            waker.clear();
            let now = clock::now();
            // Step 1: what the enumerator says, in its order.
            directives.for_each(|_, batch| {
                for (_, directive) in batch.drain(..) {
                    operator.obey(directive, now);
                }
            });
            operator.state.handle_time(now);
            operator.pass_on_commands();
            operator.report_progress(now);
            operator.act();
            // Step 2: what was fetched, as far as there is room for it.
            operator.read(admission.as_mut(), now);
            operator.act();
            // Step 3: when to come back.
            if let Some(due) = operator.state.poll_timeout() {
                operator.alarm.set(due, now);
            }
        }
    });
    ReaderOutputs {
        batches,
        errors,
        health,
        reports,
    }
}

/// The ports of batches, errors and health hold the open tick, those of the keeper the oldest that is not
/// durable, all of them nothing once the last tick is durable.
struct ReaderOperator<T: SourceTime, S: Split, F: SplitFetcher<S>> {
    id: ReaderId,
    state: ReaderState<S, F::Batch>,
    fetcher: F,
    /// Kept for its allocation; empty between activations.
    fetched: Vec<Fetched<S, F::Batch>>,
    batches: ContainerPort<T, F::Batch>,
    errors: ItemPort<T, SplitError<S>>,
    health: ItemPort<T, Health>,
    reports: ItemPort<T, Report<S>>,
    room: Room<T>,
    alarm: Alarm,
    progress_due: Duration,
    /// Whether a piece may have been parked because its tick was not to be emitted yet.
    parked_by_replay: bool,
    options: SourceOptions<T, S>,
}

impl<T: SourceTime, S: Split, F: SplitFetcher<S>> ReaderOperator<T, S, F> {
    /// Does what the enumerator says.
    fn obey(&mut self, directive: Directive<S>, now: Duration) {
        if let Directive::Explained(explanation) = directive {
            self.options.control.explained(*explanation);
            return;
        }
        self.state.handle_directive(directive, now);
        self.act();
    }

    /// Does what the state wants done.
    fn act(&mut self) {
        while let Some(action) = self.state.poll() {
            match action {
                ReaderAction::Report(report) => self.report(report),
                ReaderAction::Adopt(epoch, metadata) => self.fetcher.adopt(epoch, &metadata),
                ReaderAction::Fetch(split, split_epoch, start) => {
                    self.fetcher.assign(&split, split_epoch, &start);
                }
                ReaderAction::Unfetch(split, split_epoch) => {
                    self.fetcher.unassign(&split, split_epoch);
                }
                ReaderAction::Prepare(split) => {
                    if self.fetcher.prepare(&split) == Prepared::AtOnce {
                        self.state.handle_prepared(split);
                    }
                }
                ReaderAction::Downgrade(tick) => {
                    let time = (self.options.time.time_of)(tick);
                    self.batches.downgrade(&time);
                    self.errors.downgrade(&time);
                    self.health.downgrade(&time);
                }
                ReaderAction::Emit(error) => self.errors.give(self.open().as_ref(), error),
                ReaderAction::EmitAt(tick, error) => {
                    let time = (self.options.time.time_of)(tick);
                    self.errors.give(Some(&time), error);
                }
                ReaderAction::Reject(reason) => self.say(Health::new(
                    "source",
                    HealthStatus::Failing(FailureKind::Definite),
                    reason,
                )),
                ReaderAction::Finish => {
                    self.batches.close();
                    self.errors.close();
                    self.health.close();
                    self.reports.close();
                }
            }
        }
    }

    fn report(&mut self, report: Report<S>) {
        let time = message_time(self.options.time);
        self.reports.give(Some(&time), report);
    }

    /// The time to emit at, if a tick is open.
    fn open(&self) -> Option<T> {
        self.state.open().map(self.options.time.time_of)
    }

    fn say(&mut self, health: Health) {
        let event = SourceEvent::Health(health.clone());
        self.options.observer.hear(&event);
        self.health.give(self.open().as_ref(), health);
    }

    /// Passes on what was asked for near this reader.
    fn pass_on_commands(&mut self) {
        for command in self.options.control.take(self.id) {
            self.report(Report::Command(command));
        }
    }

    /// Tells now and then how far behind splits are.
    fn report_progress(&mut self, now: Duration) {
        if now < self.progress_due {
            return;
        }
        self.progress_due = now + PROGRESS_EVERY;
        let due = self.state.due_for_lag().into_iter();
        let lags = due.filter_map(|(split, split_epoch, next)| {
            let lag = self.fetcher.lag(&split, &next)?;
            Some((split, split_epoch, lag))
        });
        let lags = lags.collect();
        self.state.handle_lags(lags, now);
    }

    /// How many more bytes the open tick may have.
    fn room_at_tick(&self) -> usize {
        (self.options.open_tick_bytes_max).saturating_sub(self.state.open_bytes())
    }

    /// How many bytes may be emitted, if any.
    fn room(&mut self, now: Duration) -> Option<usize> {
        let open_bytes = self.state.open_bytes();
        let (unreleased, parked) = (self.fetcher.unreleased_bytes(), self.state.parked_bytes());
        let left = self.room.left(unreleased, parked);
        let room = left
            .min(self.room_at_tick())
            .min(self.options.activation_bytes_max);
        let is_full = room == 0;
        if is_full {
            let by_tick = self.room.is_full_of_tick(open_bytes);
            self.state.handle_full(by_tick, now);
            self.alarm.set(now + LOOK_AGAIN, now);
        } else {
            self.state.handle_room(now);
        }
        if self.room.borrows() {
            self.alarm.set(now + GIVE_BACK_WITHIN, now);
        }
        if let Some(health) = self.room.tell(self.id, left == 0, now) {
            self.say(health);
        }
        (!is_full).then_some(room)
    }

    /// Emits what was fetched, as far as there is room, and hears what else the fetcher has to say.
    fn read(&mut self, mut admission: Option<&mut AdmissionHook<S, F::Batch>>, now: Duration) {
        if self.state.is_replaying() {
            self.read_again(admission, now);
            return;
        }
        let room = self.room(now);
        let Some(tick) = self.state.open() else {
            return;
        };
        // What is parked has room already: only its tick may be full.
        if admission.is_some() || self.parked_by_replay {
            self.parked_by_replay = false;
            self.offer_again(admission.as_deref_mut(), tick, now);
        }
        let mut fetched = std::mem::take(&mut self.fetched);
        // Without room the fetcher is heard all the same, and the alarm is set.
        let polled = self.fetcher.poll(room.unwrap_or(0), &mut fetched);
        if room.is_some() && polled == Polled::More {
            self.alarm.at_once();
        }
        let mut said = Vec::new();
        let mut emitting = Vec::new();
        for item in fetched.drain(..) {
            match item {
                Fetched::Piece(piece) => {
                    let piece = self.up_to_stop(piece);
                    if let Some(hook) = &mut admission
                        && self.state.is_next(&piece)
                        && hook(&piece) == Admission::Hold
                    {
                        self.state.park(piece);
                        self.alarm.set(now + LOOK_AGAIN, now);
                    } else if self.state.handle_piece(&piece, now) == Verdict::Emit {
                        emitting.push(piece);
                    }
                }
                Fetched::Down(down) => self.state.handle_down(down, now),
                Fetched::Prepared(split) => self.state.handle_prepared(split),
                Fetched::Health(health) => said.push(health),
            }
        }
        self.fetched = fetched;
        self.emit(tick, emitting);
        for health in said {
            self.say(health);
        }
    }

    /// Offers parked pieces to the admission hook again, if there is one.
    fn offer_again(
        &mut self,
        mut hook: Option<&mut AdmissionHook<S, F::Batch>>,
        tick: Tick,
        now: Duration,
    ) {
        for split in self.state.parked() {
            if self.room_at_tick() == 0 {
                self.parked_by_replay = hook.is_none();
                self.alarm.set(now + LOOK_AGAIN, now);
                return;
            }
            let Some(piece) = self.state.unpark(&split) else {
                continue;
            };
            if hook
                .as_mut()
                .is_some_and(|hook| hook(&piece) == Admission::Hold)
            {
                self.state.park_again(piece);
                self.alarm.set(now + LOOK_AGAIN, now);
            } else if self.state.handle_piece(&piece, now) == Verdict::Emit {
                self.emit(tick, vec![piece]);
                self.state.resume(&split);
            }
        }
    }

    /// Emits what was fetched at the ticks at which it was emitted before.
    ///
    /// When there is no room, only what the frontier waits for is emitted: what is in flight is freed
    /// by nothing else. So at most one tick more than there is room for is in flight.
    fn read_again(
        &mut self,
        mut admission: Option<&mut AdmissionHook<S, F::Batch>>,
        now: Duration,
    ) {
        let room = self.room(now);
        let only_oldest = room.is_none();
        for split in self.state.parked() {
            if let Some(piece) = self.state.unpark(&split) {
                self.give_again(piece, admission.as_deref_mut(), only_oldest, true, now);
            }
        }
        let mut fetched = std::mem::take(&mut self.fetched);
        let most = room.unwrap_or(self.options.activation_bytes_max);
        if self.fetcher.poll(most, &mut fetched) == Polled::More {
            self.alarm.at_once();
        }
        for item in fetched.drain(..) {
            match item {
                Fetched::Piece(piece) if self.state.is_next(&piece) => {
                    let piece = self.up_to_stop(piece);
                    self.give_again(piece, admission.as_deref_mut(), only_oldest, false, now);
                }
                // It is late, or does not go on where it should: nothing of it is emitted.
                Fetched::Piece(piece) => {
                    self.state.handle_piece(&piece, now);
                }
                Fetched::Down(down) => self.state.handle_down(down, now),
                Fetched::Prepared(split) => self.state.handle_prepared(split),
                Fetched::Health(health) => self.say(health),
            }
        }
        self.fetched = fetched;
        self.state.report_replayed();
    }

    /// A piece without what is past the stop of its split.
    fn up_to_stop(&mut self, mut piece: Piece<S, F::Batch>) -> Piece<S, F::Batch> {
        let Some(stop) = self.state.stop_within(&piece) else {
            return piece;
        };
        let a_record = bytes_a_record(&piece);
        if let Some(batch) = piece.batch.take() {
            let parts = self.fetcher.cut(batch, std::slice::from_ref(&stop));
            piece.batch = parts.into_iter().next().flatten();
        }
        piece.bytes = a_record * piece.batch.as_ref().map_or(0, records_of);
        piece.end = stop;
        piece
    }

    /// Emits a piece that is the next of its split as far as it may be, and parks the rest.
    fn give_again(
        &mut self,
        mut piece: Piece<S, F::Batch>,
        hook: Option<&mut AdmissionHook<S, F::Batch>>,
        only_oldest: bool,
        was_parked: bool,
        now: Duration,
    ) {
        if hook.is_some_and(|hook| hook(&piece) == Admission::Hold) {
            self.alarm.set(now + LOOK_AGAIN, now);
            self.hold_back(piece, was_parked);
            return;
        }
        let cuts = self.state.cuts(&piece, only_oldest);
        let Some((_, end)) = cuts.last().cloned() else {
            self.hold_back(piece, was_parked);
            return;
        };
        let inner = cuts.iter().map(|(_, cut)| cut.clone());
        let inner: Vec<_> = inner.filter(|cut| *cut < piece.end).collect();
        let a_record = bytes_a_record(&piece);
        let mut parts = match piece.batch.take() {
            None => vec![None; inner.len() + 1],
            Some(batch) if inner.is_empty() => vec![Some(batch)],
            Some(batch) => self.fetcher.cut(batch, &inner),
        };
        let rest = (end < piece.end).then(|| parts.pop().flatten());
        for ((tick, _), batch) in cuts.into_iter().zip(parts) {
            let Some(batch) = batch else { continue };
            self.room.emitted(tick, a_record * records_of(&batch));
            let time = (self.options.time.time_of)(tick);
            self.batches.give_all(&time, std::iter::once(batch));
        }
        self.state.replayed(&piece.split, &end, now);
        match rest {
            Some(batch) => {
                piece.bytes = a_record * batch.as_ref().map_or(0, records_of);
                (piece.start, piece.batch) = (end, batch);
                self.hold_back(piece, was_parked);
            }
            None if was_parked => self.state.resume(&piece.split),
            None => {}
        }
    }

    /// Parks a piece that may not be emitted yet.
    fn hold_back(&mut self, piece: Piece<S, F::Batch>, was_parked: bool) {
        self.parked_by_replay = true;
        if was_parked {
            self.state.park_again(piece);
        } else {
            self.state.park(piece);
        }
    }

    fn emit(&mut self, tick: Tick, pieces: Vec<Piece<S, F::Batch>>) {
        if pieces.is_empty() {
            return;
        }
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        self.room.emitted(tick, bytes);
        let batches = pieces.into_iter().filter_map(|piece| piece.batch);
        self.batches
            .give_all(&(self.options.time.time_of)(tick), batches);
        kill_point::pass(KillPoint::Emitted);
    }
}

/// How many records a batch has, one at least.
fn records_of<B: Accountable>(batch: &B) -> usize {
    usize::try_from(batch.record_count()).unwrap_or(0).max(1)
}

/// How many bytes of a piece each of its records takes, about.
fn bytes_a_record<S: Split, B: Accountable>(piece: &Piece<S, B>) -> usize {
    piece.bytes / piece.batch.as_ref().map_or(1, records_of)
}

//! A source without I/O: the coordinator and its readers, and queues between them that whoever
//! drives it moves, one message at a time, in whatever order links would allow.

mod carry;
mod drains;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use timely_splits::assignor::{Assignor, ReaderProfile};
use timely_splits::coordinator::{Coordinator, CoordinatorOptions};
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest};
use timely_splits::epoch::{Incarnation, ReaderId, SplitEpoch};
use timely_splits::event::SourceEvent;
use timely_splits::fetcher::{Fetched, Piece};
use timely_splits::log::LogRecord;
use timely_splits::protocol::{Command, Configuration, Directive, Report};
use timely_splits::reader::{ReaderOptions, ReaderState, Verdict};
use timely_splits::tick::Tick;

use self::drains::Drains;
pub(crate) use self::watch::Watch;
use crate::forest::{Bud, Forest, Leaf};
use crate::history::{Emission, History};

/// When it begins: late enough that clocks can go back.
pub(crate) const BEGIN: Duration = Duration::from_secs(1_000);

/// What is emitted is of no interest, only which ranges are, and of what.
pub(crate) type Batch = Bud;

/// What a source is set up with.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) coordinator: CoordinatorOptions,
    pub(crate) reader: ReaderOptions,
    pub(crate) assignor: Rc<dyn Fn() -> Box<dyn Assignor<Leaf>>>,
    /// Whether metadata goes to readers on a link of its own, so that assignments overtake it and are
    /// overtaken.
    pub(crate) metadata_apart: bool,
}

/// A source, and everything it says.
pub(crate) struct Model {
    pub(crate) settings: Settings,
    pub(crate) now: Duration,
    /// By how many milliseconds the coordinator's clock is ahead of `now`.
    pub(crate) clock_ahead: i64,
    pub(crate) coordinator: Coordinator<Leaf>,
    pub(crate) readers: Vec<Reader>,
    /// What is in the log for good, and what is being appended.
    pub(crate) log: Vec<LogRecord<Leaf>>,
    pub(crate) under_way: Option<(Incarnation, Vec<LogRecord<Leaf>>)>,
    /// The log told this run that it cannot be written.
    pub(crate) log_lost: bool,
    pub(crate) asked: VecDeque<DiscoveryRequest<Leaf>>,
    /// Splits that fetchers were told to read, for whoever plays the fetchers.
    pub(crate) fetching: VecDeque<(usize, Leaf)>,
    /// Splits that fetchers were told to prepare for, likewise.
    pub(crate) preparing: VecDeque<(usize, Leaf)>,
    pub(crate) told: Vec<SourceEvent<Leaf>>,
    pub(crate) watch: Watch,
    pub(crate) drains: Drains,
    pub(crate) history: History<Leaf>,
    /// It has read a leaf that is another one by now, and goes no further.
    over: bool,
    /// Whoever runs it was told that it goes no further.
    pub(crate) failed: bool,
    /// Whether nothing may be bound of a leaf that took the place of another.
    pub(crate) is_proven: bool,
    /// What each leaf is, as the log says.
    identities: BTreeMap<Leaf, Bud>,
    /// What was emitted at ticks that are not bound.
    emitted: BTreeMap<Tick, BTreeSet<(Leaf, Bud)>>,
    /// What happened, if somebody is to read it.
    pub(crate) story: Option<Vec<String>>,
}

/// A reader, its two links, and what its fetcher was told.
pub(crate) struct Reader {
    pub(crate) state: ReaderState<Leaf, Batch>,
    pub(crate) directives: VecDeque<Directive<Leaf>>,
    /// Directives about metadata, if they have a link of their own.
    pub(crate) metadata: VecDeque<Directive<Leaf>>,
    pub(crate) reports: VecDeque<Report<Leaf>>,
    pub(crate) fetcher: BTreeMap<Leaf, (SplitEpoch, u64)>,
    /// The oldest tick that it may emit at.
    pub(crate) capability: Option<Tick>,
    pub(crate) finished: bool,
}

macro_rules! tell {
    ($model:expr, $($words:tt)*) => {
        if let Some(story) = &mut $model.story {
            let at = $model.now.as_secs_f64();
            story.push(format!("{at:>10.3}  {}", format_args!($($words)*)));
        }
    };
}
use tell;

impl Model {
    /// A source whose log is not open.
    pub(crate) fn new(settings: Settings) -> Self {
        let mut model = Self {
            coordinator: Coordinator::new(settings.coordinator, (settings.assignor)()),
            settings,
            now: BEGIN,
            clock_ahead: 0,
            readers: Vec::new(),
            log: Vec::new(),
            under_way: None,
            log_lost: false,
            asked: VecDeque::new(),
            fetching: VecDeque::new(),
            preparing: VecDeque::new(),
            told: Vec::new(),
            watch: Watch::new(),
            drains: Drains::default(),
            history: History::new(),
            over: false,
            failed: false,
            is_proven: false,
            identities: BTreeMap::new(),
            emitted: BTreeMap::new(),
            story: None,
        };
        model.boot();
        model
    }

    /// A run begins: its readers introduce themselves.
    fn boot(&mut self) {
        let settings = &self.settings;
        self.coordinator = Coordinator::new(settings.coordinator, (settings.assignor)());
        let reader = |index| Reader {
            state: ReaderState::new(
                ReaderProfile::new(ReaderId(index)),
                settings.reader,
                Configuration::new(),
            ),
            directives: VecDeque::new(),
            metadata: VecDeque::new(),
            reports: VecDeque::new(),
            fetcher: BTreeMap::new(),
            capability: None,
            finished: false,
        };
        self.readers = (0..settings.coordinator.readers).map(reader).collect();
        let incarnation = self.watch.incarnation.next();
        self.watch = Watch::new();
        self.drains = Drains::default();
        self.watch.incarnation = incarnation;
        self.watch.restored(self.history.durably_paused());
        for index in 0..self.readers.len() {
            self.act(index);
        }
    }

    /// The time that the coordinator is told, along with what its clock says.
    fn clock(&mut self) -> Duration {
        let ahead = Duration::from_millis(self.clock_ahead.unsigned_abs());
        let wall = if self.clock_ahead < 0 {
            self.now - ahead
        } else {
            self.now + ahead
        };
        self.coordinator.handle_clock(wall, self.now);
        self.now
    }

    /// The log is open.
    pub(crate) fn open(&mut self) {
        let last = self.log.iter().rev().find_map(|record| match record {
            LogRecord::Incarnation(incarnation) => Some(*incarnation),
            LogRecord::Snapshot(snapshot) => Some(snapshot.incarnation),
            _ => None,
        });
        self.watch.incarnation = last.unwrap_or_default().next();
        tell!(
            self,
            "the log is open with {} records, for incarnation {}",
            self.log.len(),
            self.watch.incarnation
        );
        let now = self.clock();
        self.coordinator.handle_opened(&self.log, now);
        self.carry_out();
    }

    /// All processes end without warning, and `readers` begin anew. What was being appended is in the
    /// log if it is `written`.
    pub(crate) fn crash(&mut self, written: bool, readers: usize) {
        let under_way = self.under_way.take();
        if let Some((_, records)) = under_way.filter(|_| written) {
            self.put_into_log(records);
        }
        tell!(
            self,
            "CRASH; {readers} readers begin (append written: {written})"
        );
        self.history.crashed();
        self.settings.coordinator.readers = readers;
        (self.log_lost, self.over, self.failed) = (false, false, false);
        self.emitted.clear();
        self.asked.clear();
        self.fetching.clear();
        self.preparing.clear();
        self.boot();
    }

    /// The coordinator is told the time.
    pub(crate) fn time(&mut self) {
        let now = self.clock();
        self.coordinator.handle_time(now);
        self.carry_out();
        let due = self.coordinator.poll_timeout();
        assert!(
            due.is_none_or(|due| due > self.now),
            "I11: it is woken at {due:?} for nothing"
        );
    }

    /// A reader is told the time.
    pub(crate) fn reader_time(&mut self, reader: usize) {
        self.readers[reader].state.handle_time(self.now);
        self.act(reader);
    }

    /// The oldest directive reaches its reader.
    pub(crate) fn directive(&mut self, reader: usize) {
        if let Some(directive) = self.readers[reader].directives.pop_front() {
            self.directed(reader, directive);
        }
    }

    /// The oldest directive on the link for metadata alone reaches its reader.
    pub(crate) fn metadata_apart(&mut self, reader: usize) {
        if let Some(directive) = self.readers[reader].metadata.pop_front() {
            self.directed(reader, directive);
        }
    }

    fn directed(&mut self, reader: usize, directive: Directive<Leaf>) {
        tell!(self, "reader {reader} <- {directive:?}");
        self.watch.receives(ReaderId(reader), &directive);
        let state = &mut self.readers[reader].state;
        state.handle_directive(directive, self.now);
        self.act(reader);
    }

    /// The oldest report of a reader reaches the coordinator.
    pub(crate) fn report(&mut self, reader: usize) {
        let Some(report) = self.readers[reader].reports.pop_front() else {
            return;
        };
        tell!(self, "coordinator <- reader {reader}: {report:?}");
        self.watch.hears(&report);
        self.drains.cut |= matches!(report, Report::Command(Command::ConfirmMetadata));
        let now = self.clock();
        self.coordinator.handle_report(report, now);
        self.carry_out();
    }

    /// Somebody near a reader asks for something.
    pub(crate) fn command(&mut self, reader: usize, command: Command<Leaf>) {
        let reports = &mut self.readers[reader].reports;
        reports.push_back(Report::Command(command));
    }

    /// The discovery answers.
    pub(crate) fn discovered(&mut self, event: DiscoveryEvent<Leaf>) {
        tell!(self, "coordinator <- discovery: {event:?}");
        if let DiscoveryEvent::Found { splits, .. } = &event {
            for found in splits {
                let leaf = self.history.read_as(found.split);
                let known = self.identities.get(&leaf);
                // It is not wanted any more, whoever is to have it next.
                if known.is_none_or(|known| *known != found.identity) {
                    self.watch.vanishes(leaf);
                }
            }
        }
        let now = self.clock();
        self.coordinator.handle_discovery(event, now);
        self.carry_out();
    }

    pub(crate) fn metadata(&mut self, forest: Forest) {
        self.discovered(DiscoveryEvent::Metadata(forest));
    }

    /// The append under way is durable.
    pub(crate) fn appended(&mut self) {
        let Some((_, records)) = self.under_way.take() else {
            return;
        };
        tell!(self, "the log has {} more records", records.len());
        self.put_into_log(records);
        let now = self.clock();
        self.coordinator.handle_appended(now);
        self.carry_out();
    }

    /// Another run has taken over the log, which writes no more for this one.
    pub(crate) fn lose_log(&mut self) {
        tell!(self, "the log is lost");
        self.log_lost = true;
        self.under_way = None;
        let now = self.clock();
        self.coordinator.handle_log_lost("taken over", now);
        self.carry_out();
    }

    fn put_into_log(&mut self, records: Vec<LogRecord<Leaf>>) {
        for record in records {
            self.history.logged(&record);
            match &record {
                LogRecord::Binding(binding) => {
                    self.watch.bound(binding.tick);
                    self.assert_what_it_was(binding.tick);
                }
                LogRecord::Identified { split, identity } => {
                    self.identities.insert(*split, *identity);
                }
                _ => {}
            }
            self.log.push(record);
        }
    }

    /// A tick is bound.
    fn assert_what_it_was(&mut self, tick: Tick) {
        for (leaf, bud) in self.emitted.remove(&tick).unwrap_or_default() {
            let known = self.identities.get(&leaf);
            assert!(
                !self.is_proven || known.is_none_or(|known| *known == bud),
                "identity: tick {tick} is bound with records of {leaf} that is {bud}, and it was {known:?}"
            );
        }
    }

    /// Puts a snapshot into the log and drops what is before it, if nothing is being appended.
    pub(crate) fn compact(&mut self) {
        // A snapshot has what closed ticks come to, so it comes after their bindings.
        let bound = self.under_way.is_none() && self.coordinator.tables().ticks_waiting == 0;
        let is_over = self.log_lost || self.over;
        if bound && !is_over && self.coordinator.open_tick().is_some() {
            tell!(self, "the log is compacted");
            let snapshot = LogRecord::Snapshot(self.coordinator.snapshot());
            self.put_into_log(vec![snapshot]);
            self.log.drain(..self.log.len() - 1);
        }
    }

    /// A fetcher hands something over; a tick must be [open](ReaderState::open).
    pub(crate) fn fetched(&mut self, reader: usize, fetched: Fetched<Leaf, Batch>) -> Verdict {
        let verdict = match fetched {
            Fetched::Piece(piece) => self.piece(reader, &piece),
            Fetched::Down(down) => {
                tell!(self, "reader {reader} <- fetcher: {down:?}");
                self.readers[reader].state.handle_down(down, self.now);
                Verdict::Drop
            }
            Fetched::Prepared(leaf) => {
                tell!(self, "reader {reader} is prepared for {leaf}");
                self.readers[reader].state.handle_prepared(leaf);
                Verdict::Drop
            }
            Fetched::Health(_) => Verdict::Drop,
        };
        self.act(reader);
        verdict
    }

    /// A piece without what is past the stop of its split, as the operator cuts it.
    fn up_to_stop(&self, reader: usize, piece: &Piece<Leaf, Batch>) -> Piece<Leaf, Batch> {
        let stop = self.readers[reader].state.stop_within(piece);
        Piece {
            end: stop.unwrap_or(piece.end),
            ..piece.clone()
        }
    }

    fn piece(&mut self, reader: usize, piece: &Piece<Leaf, Batch>) -> Verdict {
        let piece = &self.up_to_stop(reader, piece);
        let state = &mut self.readers[reader].state;
        let tick = state.open().expect("asked before");
        let verdict = state.handle_piece(piece, self.now);
        tell!(
            self,
            "reader {reader} <- fetcher: {}..{} of {}#{}: {verdict:?} at tick {tick}",
            piece.start,
            piece.end,
            piece.split,
            piece.split_epoch
        );
        if verdict == Verdict::Emit {
            self.watch.emits(ReaderId(reader), piece);
            self.drains.emits(piece.split, tick);
            let of = piece.batch.map(|bud| (piece.split, bud));
            self.emitted.entry(tick).or_default().extend(of);
            self.history.emitted(Emission {
                at: self.now,
                reader: ReaderId(reader),
                split: piece.split,
                split_epoch: piece.split_epoch,
                from: piece.start,
                to: piece.end,
                tick,
            });
        }
        verdict
    }

    /// Offers pieces that were held back again, and holds them again if `hold` says so.
    pub(crate) fn offer_again(&mut self, reader: usize, mut hold: impl FnMut() -> bool) {
        if self.readers[reader].state.open().is_none() {
            return;
        }
        for leaf in self.readers[reader].state.parked() {
            let state = &mut self.readers[reader].state;
            let Some(piece) = state.unpark(&leaf) else {
                continue;
            };
            if hold() {
                state.park_again(piece);
            } else if self.piece(reader, &piece) == Verdict::Emit {
                self.readers[reader].state.resume(&leaf);
            }
        }
        self.act(reader);
    }

    /// Holds a piece back if it is the next of its split; false if it is not.
    pub(crate) fn hold(&mut self, reader: usize, piece: &Piece<Leaf, Batch>) -> bool {
        let next = self.readers[reader].state.is_next(piece);
        if next {
            tell!(
                self,
                "reader {reader} holds back a piece of {}",
                piece.split
            );
            let piece = self.up_to_stop(reader, piece);
            let state = &mut self.readers[reader].state;
            state.park(piece);
            self.act(reader);
        }
        next
    }

    /// A fetcher tells how far its splits are behind.
    pub(crate) fn lags(&mut self, reader: usize, lags: Vec<(Leaf, SplitEpoch, u64)>) {
        self.readers[reader].state.handle_lags(lags, self.now);
        self.act(reader);
    }
}

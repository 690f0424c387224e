//! What goes wrong, and what must come right once nothing does any more.

use std::time::Duration;

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::fetcher::{Fetched, FetcherDown};
use timely_splits::loss::LossPolicy;
use timely_splits::protocol::{Command, Report};
use timely_splits::split::Split;
use timely_splits::tick::Tick;

use crate::forest::Leaf;
use crate::model::BEGIN;
use crate::run::{Happening, Port, Simulation};
use crate::script::Fault;

/// How often it is looked whether all is well.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How many looks it may take, at most.
const LOOKS_MAX: u32 = 400;

/// How far a source has come since its last fault.
pub(super) struct Healing {
    looks: u32,
    stage: Stage,
    since: Option<Tick>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Everything is to be read by somebody.
    Reading,
    /// The assignor was asked to balance.
    Balancing,
    /// Nothing may move any more, from this many revocations on, for as many looks.
    Quiet(u64, u32),
    /// The end was asked for.
    Ending,
    Done,
}

impl Healing {
    /// Another run begins, which knows nothing of what was asked of the one before.
    pub(super) fn begin_again(&mut self) {
        self.stage = Stage::Reading;
        self.since = None;
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }
}

impl Simulation {
    pub(super) fn fault(&mut self, fault: Fault) {
        if let Some(story) = &mut self.model.story {
            story.push(format!("---- {fault:?}"));
        }
        match fault {
            Fault::Write(leaf, records) => {
                self.world.write(leaf, records);
                self.wake_fetchers(leaf);
            }
            Fault::Delete(leaf, records) => {
                self.world.delete(leaf, records);
                self.wake_fetchers(leaf);
            }
            Fault::Replace(tree, records) => {
                self.world.replace(tree, records);
                let leaves: Vec<_> = self.world.leaves().collect();
                for leaf in leaves.into_iter().filter(|leaf| leaf.tree == tree) {
                    self.wake_fetchers(leaf);
                }
            }
            Fault::Grow(leaf) => {
                self.world.grow(leaf);
                self.wake_fetchers(leaf);
            }
            Fault::Wither(leaf) => self.world.wither(leaf),
            Fault::Change(forest) => {
                self.world.truth = forest.clone();
                self.say_metadata(forest);
            }
            Fault::Lie(forest) => self.say_metadata(forest),
            Fault::Repeat => self.say_metadata(self.world.truth.clone()),
            Fault::Mute => self.model.discovered(DiscoveryEvent::MetadataFailed),
            Fault::Overlook(leaf) => {
                let said = self.world.overlook(leaf);
                self.answer(said.into_iter().collect());
            }
            Fault::Ask(reader, command) => self.command(reader, command),
            Fault::LoseLog => {
                if self.model.coordinator.open_tick().is_some() {
                    self.model.lose_log();
                }
            }
            Fault::Compact => self.model.compact(),
            Fault::Clock(millis) => {
                self.model.clock_ahead = (self.model.clock_ahead + millis).clamp(-5_000, 60_000);
            }
            Fault::Crash {
                readers,
                down,
                written,
            } => {
                self.model.crash(written, readers);
                self.boot(down);
            }
            Fault::LoseStarts(_) | Fault::Hang(..) | Fault::Stall(..) | Fault::SlowLog(_) => {
                self.slow(&fault);
            }
            Fault::Break(..) | Fault::Skip(_) | Fault::Again(..) => self.misread(&fault),
        }
    }

    /// Something takes its time.
    fn slow(&mut self, fault: &Fault) {
        let now = self.model.now.saturating_sub(BEGIN);
        let readers = self.ports.len();
        match fault {
            Fault::LoseStarts(time) => self.world.starts_lost_until = now + *time,
            Fault::SlowLog(time) => self.log_slow_until = now + *time,
            Fault::Hang(reader, time) => {
                let port = &mut self.ports[reader % readers];
                port.hung_until = port.hung_until.max(now + *time);
            }
            Fault::Stall(reader, time) => {
                let port = &mut self.ports[reader % readers];
                port.stalled_until = port.stalled_until.max(now + *time);
            }
            _ => unreachable!("nothing slow"),
        }
    }

    /// A fetcher does not do what it should.
    fn misread(&mut self, fault: &Fault) {
        match *fault {
            Fault::Break(leaf, cause) => self.on_fetchers(leaf, |simulation, reader, leaf| {
                let (split_epoch, _) = simulation.model.readers[reader].fetcher[&leaf];
                let down = FetcherDown {
                    split: leaf,
                    split_epoch,
                    cause,
                    message: "broken on purpose".to_owned(),
                };
                // Nothing more comes of this attempt.
                simulation.ports[reader].attempts.remove(&leaf);
                simulation.deliver(reader, Fetched::Down(down), 0);
            }),
            Fault::Skip(leaf) => self.on_fetchers(leaf, |simulation, reader, leaf| {
                let end = simulation.world.end(leaf);
                if let Some((_, next)) = simulation.model.readers[reader].fetcher.get_mut(&leaf) {
                    *next = end.min(*next + 1);
                }
            }),
            Fault::Again(leaf, records) => self.on_fetchers(leaf, |simulation, reader, leaf| {
                if let Some((_, next)) = simulation.model.readers[reader].fetcher.get_mut(&leaf) {
                    *next = next.saturating_sub(records);
                }
                simulation.wake_fetchers(leaf);
            }),
            _ => unreachable!("nothing about a fetcher"),
        }
    }

    /// Does something to the fetchers that were told to read a leaf, as whichever it is by now.
    fn on_fetchers(&mut self, leaf: Leaf, act: impl Fn(&mut Self, usize, Leaf)) {
        let leaf = self.model.history.read_as(leaf);
        for reader in 0..self.ports.len() {
            if self.model.readers[reader].fetcher.contains_key(&leaf) {
                act(self, reader, leaf);
            }
        }
    }

    /// The metadata service says something, which may overtake what it said before.
    fn say_metadata(&mut self, forest: crate::forest::Forest) {
        let most = self.case.swarm.discovery;
        let delay = Duration::from_millis(self.ports[0].random.below(most + 1));
        self.soon(delay, Happening::Answer(DiscoveryEvent::Metadata(forest)));
    }

    /// There are no faults from here on.
    pub(super) fn heal(&mut self) {
        if let Some(story) = &mut self.model.story {
            story.push("---- no more faults".to_owned());
        }
        self.mood.settle();
        self.world.heal(self.case.swarm.losses);
        self.log_slow_until = Duration::ZERO;
        self.healing = Some(Healing {
            looks: 0,
            stage: Stage::Reading,
            since: None,
        });
        // What hangs already comes by and by.
        let now = self.model.now.saturating_sub(BEGIN);
        let mut late = now;
        for port in &mut self.ports {
            late = late.max(port.hung_until).max(port.stalled_until);
            port.hung_until = Duration::ZERO;
        }
        let late = late.saturating_sub(now);
        // After everything that the service said before.
        let last = Duration::from_millis(2 * self.case.swarm.discovery + 1);
        self.soon(last, Happening::Truth);
        self.plan(last.max(late) + LOOK_EVERY, 0, Happening::Look);
    }

    /// Looks whether all is well, and goes one stage further if so.
    pub(super) fn look(&mut self) {
        let wrong = self.wrong();
        let open = self.model.coordinator.open_tick();
        let healing = self.healing.as_mut().expect("there are no faults any more");
        healing.looks += 1;
        healing.since = healing.since.or(open);
        let (looks, stage) = (healing.looks, healing.stage);
        assert!(
            looks < LOOKS_MAX,
            "L: {stage:?}, but {}",
            wrong.unwrap_or_else(|| format!("it does not end, with {:?} splits", self.counts()))
        );
        let next = self.stage_after(stage, wrong.as_deref());
        self.healing.as_mut().expect("as before").stage = next;
        self.ask_for_what_was_stopped();
        self.plan(LOOK_EVERY, 0, Happening::Look);
    }

    fn stage_after(&mut self, stage: Stage, wrong: Option<&str>) -> Stage {
        let revokes = self.model.watch.revokes;
        if self.model.watch.is_stopping() {
            return if self.is_ended() {
                Stage::Done
            } else {
                Stage::Ending
            };
        }
        match stage {
            Stage::Reading if wrong.is_none() => {
                self.command(0, Command::Rebalance);
                Stage::Balancing
            }
            // What was fetched and not looked at may hold a fault.
            Stage::Balancing
                if wrong.is_none()
                    && self.is_balanced()
                    && self.ports.iter().all(Port::is_drained)
                    && !self.is_told_of_moves() =>
            {
                Stage::Quiet(revokes, 0)
            }
            Stage::Quiet(before, looks) => {
                assert_eq!(revokes, before, "L: splits move although nothing changes");
                assert_eq!(wrong, None, "L: it does not stay well");
                if looks < 3 {
                    return Stage::Quiet(before, looks + 1);
                }
                self.command(0, Command::Stop);
                Stage::Ending
            }
            stage => stage,
        }
    }

    /// Whether something is on its way to the coordinator by which it may move splits: that it is to balance,
    /// or that a reader has one less.
    fn is_told_of_moves(&self) -> bool {
        let reports = self.model.readers.iter().flat_map(|reader| &reader.reports);
        let moves = |report: &Report<Leaf>| {
            matches!(report, Report::Command { .. } | Report::Released { .. })
        };
        reports.into_iter().any(moves)
    }

    /// Readmits what is quarantined, resumes what is paused, and refills what is drained.
    fn ask_for_what_was_stopped(&mut self) {
        if self.model.coordinator.open_tick().is_none() {
            return;
        }
        let leaves: Vec<Leaf> = self.world.leaves().collect();
        for origin in leaves {
            let replaced = self.world.bud(origin.tree) > 0;
            let waits = self.case.swarm.losses == LossPolicy::Wait && replaced;
            let leaf = self.model.history.read_as(origin);
            // One that was replaced is read on where the one before was, and drained as far, if nobody
            // starts it over.
            let history = &self.model.history;
            let reached = history.next(&leaf).max(history.end(&leaf));
            self.world.reach(origin, reached.unwrap_or_default());
            if waits && self.model.watch.owner(leaf).is_none() {
                self.command(0, Command::Readmit(leaf));
            }
            if self.model.watch.is_paused(leaf) {
                self.command(0, Command::Resume(leaf));
            }
            if self.model.history.quarantined().contains(&leaf) {
                self.command(0, Command::Readmit(leaf));
            }
        }
        for reader in self.model.watch.drained().collect::<Vec<_>>() {
            self.command(0, Command::Refill(reader));
        }
    }

    /// What is not as it should be, if anything.
    fn wrong(&self) -> Option<String> {
        let watch = &self.model.watch;
        for reader in 0..self.model.readers.len() {
            let heard = watch.heard(reader);
            if heard.is_none_or(|(_, forest)| *forest != self.world.truth)
                || heard.map(|(epoch, _)| epoch) != watch.adopted().map(|(epoch, _)| epoch)
            {
                return Some(format!("reader {reader} is at metadata {heard:?}"));
            }
            let since = self.healing.as_ref().and_then(|healing| healing.since);
            let capability = self.model.readers[reader].capability;
            if capability <= since {
                return Some(format!(
                    "reader {reader} holds the frontier at {capability:?}"
                ));
            }
        }
        for leaf in self.world.leaves() {
            let read_as = self.model.history.read_as(leaf);
            let holders = (self.model.readers.iter())
                .filter(|reader| {
                    let mut held = reader.state.positions().map(|(held, _, _)| held);
                    held.any(|held| held.origin() == leaf)
                })
                .count();
            let present = self.world.is_present(leaf);
            let next = self.model.history.next(&read_as);
            let stop = self.model.history.stop(&read_as);
            let over = stop.is_some() && next >= stop;
            if holders != usize::from(present && !over) {
                let known = match (present, over) {
                    (true, false) => "present",
                    (true, true) => "finished",
                    (false, _) => "absent",
                };
                return Some(format!("{leaf} is {known} and held by {holders} readers"));
            }
            let end = self.world.end(leaf);
            if present && !over && next != Some(end) {
                return Some(format!("{leaf} is read to {next:?} of {end}"));
            }
        }
        let tables = self.model.coordinator.tables();
        if tables.deadlines > 0 {
            return Some(format!(
                "something of {} splits is awaited",
                tables.deadlines
            ));
        }
        let kept = tables.kept;
        if kept > self.case.swarm.kept_max {
            return Some(format!("{kept} positions are kept"));
        }
        watch
            .is_awaiting_release()
            .then(|| "a revocation is not answered".to_owned())
    }

    /// How many splits each reader holds.
    fn counts(&self) -> Vec<usize> {
        let readers = self.model.readers.iter();
        readers.map(|reader| reader.state.held()).collect()
    }

    fn is_balanced(&self) -> bool {
        let counts = self.counts();
        let most = counts.iter().max().copied().unwrap_or_default();
        let least = counts.iter().min().copied().unwrap_or_default();
        most - least <= 1
    }

    fn is_ended(&self) -> bool {
        let finished = self.model.readers.iter().all(|reader| reader.finished);
        let ended = self.model.coordinator.ended() && finished;
        assert!(
            !ended || self.model.history.is_all_bound(),
            "I8: it has ended, but not all that was emitted is bound"
        );
        ended
    }
}

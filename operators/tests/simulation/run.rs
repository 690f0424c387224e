//! Runs one simulated source: everything that is under way has a time at which it happens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::fetcher::Fetched;
use timely_splits::protocol::Command;

use crate::fickle::Mood;
use crate::forest::Leaf;
use crate::heal::Healing;
use crate::model::{BEGIN, Batch, Model};
use crate::random::Random;
use crate::script::Fault;
use crate::swarm::Swarm;
use crate::world::World;

/// How many things happen in one simulated source, at most: one that goes on is called restless.
const STEPS_MAX: u64 = 400_000;

/// One source to be simulated.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) swarm: Swarm,
    pub(crate) script: Vec<(Duration, Fault)>,
}

/// Something that is under way.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Fault(usize),
    /// There are no faults from here on.
    Heal,
    /// Is everything as it should be?
    Look,
    /// The log of a new run is read.
    Open,
    Directive(usize),
    Metadata(usize),
    Report(usize),
    Log,
    Answer(DiscoveryEvent<Leaf>),
    /// The metadata service says what is so.
    Truth,
    Discover,
    Time(Duration),
    ReaderTime(usize),
    /// A fetcher asks for what comes next, in its nth attempt at a leaf.
    Fetch(usize, Leaf, u64),
    /// What was fetched reaches the reader, in the nth attempt.
    Fetched(usize, Fetched<Leaf, Batch>, u64),
    Read(usize),
    Progress(usize),
}

/// One simulated source, under way.
pub(crate) struct Simulation {
    pub(super) case: Case,
    pub(super) model: Model,
    pub(super) world: World,
    pub(super) mood: Mood,
    pub(super) healing: Option<Healing>,
    pub(super) steps: u64,
    /// What is under way by when it happens. The run is 0 for what outlives the processes.
    agenda: BTreeMap<(Duration, u64), (u64, Happening)>,
    run: u64,
    planned: u64,
    pub(super) ports: Vec<Port>,
    answer_at: Duration,
    pub(super) log_slow_until: Duration,
    log_pending: bool,
    alarm: Option<Duration>,
    attempts: u64,
    delays: Random,
}

/// What lies around one reader.
pub(super) struct Port {
    /// Of directives, metadata and reports: how many have a time, and the time of the last.
    links: [(usize, Duration); 3],
    pub(super) fetched: VecDeque<Fetched<Leaf, Batch>>,
    /// The attempt that each leaf is fetched in.
    pub(super) attempts: BTreeMap<Leaf, u64>,
    /// Attempts that found nothing more.
    pub(super) idle: BTreeSet<Leaf>,
    pub(super) hung_until: Duration,
    pub(super) stalled_until: Duration,
    alarm: Option<Duration>,
    /// Whether it is under way that the reader looks at what was fetched.
    pub(super) reading: bool,
    pub(super) random: Random,
}

impl Simulation {
    pub(crate) fn new(case: Case, story: bool) -> Self {
        let mood = Mood::new(case.seed);
        let mut model = Model::new(case.swarm.settings(&mood));
        model.story = story.then(Vec::new);
        model.is_proven = is_proven(&case);
        let world = World::new(case.seed, &case.swarm);
        let delays = Random::of(case.seed, 5);
        let mut simulation = Self {
            model,
            world,
            mood,
            healing: None,
            steps: 0,
            agenda: BTreeMap::new(),
            run: 0,
            planned: 0,
            ports: Vec::new(),
            answer_at: Duration::ZERO,
            log_slow_until: Duration::ZERO,
            log_pending: false,
            alarm: None,
            attempts: 0,
            delays,
            case,
        };
        for index in 0..simulation.case.script.len() {
            let at = simulation.case.script[index].0;
            simulation.plan(at, 0, Happening::Fault(index));
        }
        simulation.plan(simulation.case.swarm.trouble, 0, Happening::Heal);
        simulation.boot(Duration::ZERO);
        simulation
    }

    /// Runs to the end, and says in how many steps. Panics where an invariant does not hold.
    pub(crate) fn run(&mut self) -> u64 {
        while let Some(((at, _), (run, happening))) = self.agenda.pop_first() {
            if run != 0 && run != self.run {
                continue;
            }
            self.steps += 1;
            assert!(self.steps < STEPS_MAX, "L: it does not come to rest");
            self.model.now = BEGIN + at;
            self.model.told.clear();
            self.happen(happening);
            if std::mem::take(&mut self.model.failed) {
                self.start_again();
            }
            if self.healing.as_ref().is_some_and(Healing::is_done) {
                return self.steps;
            }
            self.follow();
        }
        panic!("L: nothing is under way, although it has not ended");
    }

    /// How many steps it has run for, and what happened, if that was to be told.
    pub(crate) fn into_story(self) -> (u64, Vec<String>) {
        (self.steps, self.model.story.unwrap_or_default())
    }

    pub(super) fn plan(&mut self, after: Duration, run: u64, happening: Happening) {
        let at = self.elapsed() + after;
        self.planned += 1;
        self.agenda.insert((at, self.planned), (run, happening));
    }

    /// Plans something that happens only if the processes do not end before.
    pub(super) fn soon(&mut self, after: Duration, happening: Happening) {
        self.plan(after, self.run, happening);
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.model.now.saturating_sub(BEGIN)
    }

    /// It goes no further, so whoever runs it ends it, and starts it again.
    fn start_again(&mut self) {
        let readers = self.model.readers.len();
        self.model.crash(false, readers);
        self.boot(Duration::ZERO);
        if let Some(healing) = &mut self.healing {
            healing.begin_again();
        }
    }

    fn delay(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.delays.below(most * 1_000 + 1))
    }

    /// New processes begin; their log is read after a while.
    pub(super) fn boot(&mut self, down: Duration) {
        self.run += 1;
        self.world.forget();
        self.log_pending = false;
        self.alarm = None;
        let (seed, run) = (self.case.seed, self.run);
        self.ports = (0..self.model.readers.len())
            .map(|index| Port::new(Random::of(seed, 1_000 * run + index as u64)))
            .collect();
        let open = down + self.delay(self.case.swarm.log);
        self.soon(open, Happening::Open);
        let answer = down + self.delay(self.case.swarm.discovery);
        if self.delays.chance(30) && self.healing.is_none() {
            self.soon(answer, Happening::Answer(DiscoveryEvent::MetadataFailed));
        }
        let later = self.delay(self.case.swarm.discovery);
        self.soon(answer + later, Happening::Truth);
        self.soon(down + Duration::from_millis(200), Happening::Discover);
        for reader in 0..self.ports.len() {
            self.soon(
                down + Duration::from_millis(100),
                Happening::Progress(reader),
            );
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Fault(index) => {
                if self.healing.is_none() {
                    let fault = self.case.script[index].1.clone();
                    self.fault(fault);
                }
            }
            Happening::Heal => self.heal(),
            Happening::Look => self.look(),
            Happening::Open => self.model.open(),
            Happening::Log => {
                self.log_pending = false;
                self.model.appended();
            }
            Happening::Answer(event) => self.model.discovered(event),
            Happening::Truth => self.model.metadata(self.world.truth.clone()),
            Happening::Discover => {
                let said = self.world.discover();
                self.answer(said);
                self.soon(Duration::from_millis(200), Happening::Discover);
            }
            Happening::Time(due) => {
                if self.alarm == Some(due) {
                    self.alarm = None;
                    self.model.time();
                }
            }
            Happening::Report(reader) => {
                self.ports[reader].links[2].0 -= 1;
                self.model.report(reader);
            }
            Happening::Directive(reader)
            | Happening::Metadata(reader)
            | Happening::ReaderTime(reader)
            | Happening::Fetch(reader, ..)
            | Happening::Fetched(reader, ..)
            | Happening::Read(reader)
            | Happening::Progress(reader) => {
                let stalled = self.ports[reader]
                    .stalled_until
                    .saturating_sub(self.elapsed());
                if stalled.is_zero() {
                    self.happen_to(reader, happening);
                } else {
                    self.soon(stalled, happening);
                }
            }
        }
    }

    fn happen_to(&mut self, reader: usize, happening: Happening) {
        match happening {
            Happening::Directive(_) => {
                self.ports[reader].links[0].0 -= 1;
                self.model.directive(reader);
                self.read_soon(reader, Duration::ZERO);
            }
            Happening::Metadata(_) => {
                self.ports[reader].links[1].0 -= 1;
                self.model.metadata_apart(reader);
            }
            Happening::ReaderTime(_) => {
                self.ports[reader].alarm = None;
                self.model.reader_time(reader);
            }
            Happening::Fetch(_, leaf, attempt) => self.fetch(reader, leaf, attempt),
            Happening::Fetched(_, fetched, attempt) => self.arrive(reader, fetched, attempt),
            Happening::Read(_) => {
                self.ports[reader].reading = false;
                self.read(reader);
            }
            Happening::Progress(_) => self.progress(reader),
            _ => unreachable!("not about a reader"),
        }
    }

    /// Gives a time to everything that came to be under way.
    fn follow(&mut self) {
        let now = self.elapsed();
        for reader in 0..self.ports.len() {
            let queues = &self.model.readers[reader];
            let lengths = [
                queues.directives.len(),
                queues.metadata.len(),
                queues.reports.len(),
            ];
            for (link, length) in lengths.into_iter().enumerate() {
                while self.ports[reader].links[link].0 < length {
                    let port = &mut self.ports[reader];
                    let most = self.case.swarm.link * 1_000 + 1;
                    let delay = Duration::from_micros(port.random.below(most));
                    let at = (now + delay).max(port.links[link].1);
                    port.links[link] = (port.links[link].0 + 1, at);
                    let happening = match link {
                        0 => Happening::Directive(reader),
                        1 => Happening::Metadata(reader),
                        _ => Happening::Report(reader),
                    };
                    self.soon(at.saturating_sub(now), happening);
                }
            }
            let due = self.model.readers[reader].state.poll_timeout();
            if due.is_some() && self.ports[reader].alarm != due {
                self.ports[reader].alarm = due;
                let wait = due.unwrap_or_default().saturating_sub(self.model.now);
                self.soon(wait, Happening::ReaderTime(reader));
            }
        }
        while let Some((reader, leaf)) = self.model.fetching.pop_front() {
            self.attempts += 1;
            self.ports[reader].attempts.insert(leaf, self.attempts);
            self.fetch_later(reader, leaf, self.attempts);
        }
        while let Some((reader, leaf)) = self.model.preparing.pop_front() {
            self.prepare(reader, leaf);
        }
        while let Some(request) = self.model.asked.pop_front() {
            let said = self.world.answers(request, now);
            self.answer(said);
        }
        if self.model.under_way.is_some() && !self.log_pending {
            self.log_pending = true;
            let slow = self.log_slow_until.saturating_sub(now);
            let mut delay = slow + self.delay(self.case.swarm.log);
            if self.case.swarm.steady {
                delay = slow + Duration::from_millis(self.case.swarm.log);
            }
            self.soon(delay, Happening::Log);
        }
        let due = self.model.coordinator.poll_timeout();
        if due.is_some() && due != self.alarm {
            self.alarm = due;
            let due = due.unwrap_or_default();
            let wait = due.saturating_sub(self.model.now);
            self.soon(wait.max(Duration::from_millis(1)), Happening::Time(due));
        }
    }

    /// The discovery says something after a while, and after what it said before.
    pub(super) fn answer(&mut self, said: Vec<DiscoveryEvent<Leaf>>) {
        for event in said {
            let delay = self.delay(self.case.swarm.discovery);
            self.answer_at = self.answer_at.max(self.elapsed() + delay);
            let wait = self.answer_at.saturating_sub(self.elapsed());
            self.soon(wait, Happening::Answer(event));
        }
    }

    pub(super) fn command(&mut self, reader: usize, command: Command<Leaf>) {
        let reader = reader % self.model.readers.len();
        let read_as = |leaf| self.model.history.read_as(leaf);
        let command = match command {
            Command::Move { split, to } => Command::Move {
                split: read_as(split),
                to,
            },
            Command::Pause(leaf) => Command::Pause(read_as(leaf)),
            Command::Resume(leaf) => Command::Resume(read_as(leaf)),
            Command::Readmit(leaf) => Command::Readmit(read_as(leaf)),
            command => command,
        };
        self.model.command(reader, command);
    }
}

/// Whether each tick waits until it is known that its leaves are what they were: it is asked, and answered
/// in time. Nobody knows what a leaf was that does not exist any more.
fn is_proven(case: &Case) -> bool {
    let asked = case.swarm.identify_every == Some(Duration::ZERO);
    let patient = case.swarm.identify_within > Duration::from_millis(case.swarm.discovery);
    let unknown = |fault: &Fault| matches!(fault, Fault::LoseStarts(_) | Fault::Wither(_));
    asked && patient && !case.script.iter().any(|(_, fault)| unknown(fault))
}

impl Port {
    /// Whether the reader has looked at everything that was fetched.
    pub(super) fn is_drained(&self) -> bool {
        self.fetched.is_empty()
    }

    fn new(random: Random) -> Self {
        Self {
            links: [(0, Duration::ZERO); 3],
            fetched: VecDeque::new(),
            attempts: BTreeMap::new(),
            idle: BTreeSet::new(),
            hung_until: Duration::ZERO,
            stalled_until: Duration::ZERO,
            alarm: None,
            reading: false,
            random,
        }
    }
}

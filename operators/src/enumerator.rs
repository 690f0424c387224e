//! The operator around the coordinator, on worker 0.

use std::fmt;
use std::time::Duration;

use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::progress::operate::FrontierInterest;

use crate::assignor::Assignor;
use crate::binding::Binding;
use crate::clock::{self, Alarm};
use crate::coordinator::{Coordinator, CoordinatorOptions, Intention};
use crate::discovery::SplitDiscovery;
use crate::epoch::ReaderId;
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::kill_point::{self, KillPoint};
use crate::log::{BindingLog, LogEvent, LogRecord, LogWriter};
use crate::port::{ItemPort, Port, message_time};
use crate::protocol::{Directive, Report};
use crate::source::SourceOptions;
use crate::split::Split;
use crate::tick::{SourceTime, Tick};
use crate::wake::Waker;

/// How many answers of the discovery are handled in one activation.
const ANSWERS_MAX: usize = 256;

/// What the enumerator is made of, besides its options.
pub struct Enumeration<S: Split> {
    /// Makes what finds splits, given what wakes the operator.
    pub discovery: Box<dyn FnOnce(Waker) -> Box<dyn SplitDiscovery<S>>>,
    /// Where bindings become durable.
    pub log: Box<dyn BindingLog<S>>,
    /// Picks a reader for each split.
    pub assignor: Box<dyn Assignor<S>>,
    /// How splits are assigned, besides. What the options of the source say as well is taken from
    /// there.
    pub coordination: CoordinatorOptions,
}

impl<S: Split> fmt::Debug for Enumeration<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enumeration").finish_non_exhaustive()
    }
}

/// The streams of the enumerator.
pub(crate) struct EnumeratorOutputs<'scope, T: SourceTime, S: Split> {
    pub(crate) directives: StreamVec<'scope, T, (ReaderId, Directive<S>)>,
    pub(crate) bindings: StreamVec<'scope, T, Binding<S>>,
    pub(crate) health: StreamVec<'scope, T, Health>,
}

/// Finds splits, assigns them, and says when a tick is over.
///
/// It is built on every worker, since dataflows must be the same everywhere, and works on worker 0.
///
/// # Frontier
///
/// The frontier of bindings and health is the oldest tick that is not over; a binding is emitted
/// at its tick, right before the frontier passes it. The frontier of directives is the minimum
/// until the last tick is durable.
pub(crate) fn enumerator<'scope, T: SourceTime, S: Split>(
    reports: StreamVec<'scope, T, Report<S>>,
    options: &SourceOptions<T, S>,
    enumeration: Option<Enumeration<S>>,
) -> EnumeratorOutputs<'scope, T, S> {
    let scope = reports.scope();
    let mut builder = OperatorBuilder::new(format!("{}: enumerator", options.name), scope);
    let address = builder.operator_info().address;
    let waker = Waker::new(scope.worker().sync_activator_for(address.to_vec()));
    let alarm = Alarm::new(scope.activator_for(address));
    let to_worker_0 = Exchange::new(|_: &Report<S>| 0);
    let mut reports = builder.new_input_connection(reports, to_worker_0, []);
    builder.set_notify_for(0, FrontierInterest::Never);
    let (directive_port, directives) = Port::new(&mut builder);
    let (binding_port, bindings) = Port::new(&mut builder);
    let (health_port, health) = Port::new(&mut builder);

    let mut operator = enumeration.map(|enumeration| EnumeratorOperator {
        log: LogWriter::start(
            enumeration.log,
            enumeration.coordination.resume,
            waker.clone(),
        )
        .expect("a thread for the log can be started"),
        coordinator: Coordinator::new(
            options.coordination(enumeration.coordination, scope.peers()),
            enumeration.assignor,
        ),
        discovery: (enumeration.discovery)(waker.clone()),
        directives: directive_port,
        bindings: binding_port,
        health: health_port,
        alarm,
        options: options.clone(),
        bound_before: None,
        log_failed: false,
        untold: Vec::new(),
    });
    builder.build(move |capabilities| {
        let mut capabilities = capabilities.into_iter();
        if let Some(operator) = &mut operator {
            operator.directives.hold(&mut capabilities);
            operator.bindings.hold(&mut capabilities);
            operator.health.hold(&mut capabilities);
        }
        move |_frontiers| {
            let Some(operator) = &mut operator else {
                reports.for_each(|_, _| unreachable!("reports go to worker 0"));
                return;
            };
            waker.clear();
            let now = clock::now();
            operator.coordinator.handle_clock(clock::wall(), now);
            // `for_each` and not `for_each_stamp`: a reader's reports stay in their order.
            reports.for_each(|_, batch| {
                for report in batch.drain(..) {
                    if matches!(report, Report::Released { .. }) {
                        kill_point::pass(KillPoint::Released);
                    }
                    operator.coordinator.handle_report(report, now);
                }
            });
            operator.hear_log(now);
            operator.hear_discovery(now);
            operator.coordinator.handle_time(now);
            operator.act();
            if let Some(due) = operator.coordinator.poll_timeout() {
                operator.alarm.set(due, now);
            }
        }
    });
    EnumeratorOutputs {
        directives,
        bindings,
        health,
    }
}

/// The ports of bindings and health hold the oldest tick that is not durable, all of them nothing
/// once the last tick is durable.
struct EnumeratorOperator<T: SourceTime, S: Split> {
    coordinator: Coordinator<S>,
    discovery: Box<dyn SplitDiscovery<S>>,
    log: LogWriter<S>,
    directives: ItemPort<T, (ReaderId, Directive<S>)>,
    bindings: ItemPort<T, Binding<S>>,
    health: ItemPort<T, Health>,
    alarm: Alarm,
    options: SourceOptions<T, S>,
    /// The last tick that an earlier run bound.
    bound_before: Option<Tick>,
    /// Whether the log has failed at something, which is told to be over once it is open.
    log_failed: bool,
    /// Where splits go on, if the discovery was not told.
    untold: Vec<(S, S::Position)>,
}

impl<T: SourceTime, S: Split> EnumeratorOperator<T, S> {
    fn hear_log(&mut self, now: Duration) {
        while let Some(event) = self.log.poll() {
            match event {
                LogEvent::Opened(restored) => {
                    if std::mem::take(&mut self.log_failed) {
                        let well = HealthStatus::Well;
                        self.say(Health::new("binding log", well, "it is open"));
                    }
                    if let Ok(restored) = &*restored {
                        self.bound_before = restored.bound();
                        let positions = restored.positions();
                        self.untold = positions
                            .map(|(one, at)| (one.clone(), at.clone()))
                            .collect();
                        // A run that goes back may end before the log says so: then the one after it
                        // is where this one is not.
                        if !restored.goes_back() {
                            self.tell_positions();
                        }
                        for (split, identity) in restored.identities() {
                            self.discovery.known(split, identity);
                        }
                    }
                    self.coordinator.handle_restored(*restored, now);
                }
                LogEvent::Past(bindings) => self.coordinator.handle_past(bindings, now),
                LogEvent::Appended => self.coordinator.handle_appended(now),
                LogEvent::Failed(error) => {
                    self.log_failed = true;
                    self.say(Health::new(
                        "binding log",
                        HealthStatus::Failing(FailureKind::Transient),
                        format!("{error}; trying again"),
                    ));
                }
                LogEvent::NotCompacted(error) => self.say(Health::new(
                    "binding log",
                    HealthStatus::Failing(FailureKind::Transient),
                    format!("{error}; trying again when there is more to drop"),
                )),
                LogEvent::Fenced => self.coordinator.handle_log_lost(
                    "another run of this source has taken the log over; this one ends",
                    now,
                ),
                LogEvent::Unusable(error) => {
                    self.coordinator.handle_log_lost(&error.to_string(), now);
                }
            }
        }
    }

    fn hear_discovery(&mut self, now: Duration) {
        for _ in 0..ANSWERS_MAX {
            let Some(event) = self.discovery.poll() else {
                return;
            };
            self.coordinator.handle_discovery(event, now);
        }
        self.alarm.at_once();
    }

    /// Does what the coordinator wants done.
    fn act(&mut self) {
        while let Some(intention) = self.coordinator.poll() {
            match intention {
                Intention::Send(reader, directive) => {
                    let revoke = matches!(directive, Directive::Revoke { .. });
                    let time = message_time(self.options.time);
                    self.directives.give(Some(&time), (reader, directive));
                    if revoke {
                        kill_point::pass(KillPoint::Revoked);
                    }
                }
                Intention::Ask(request) => self.discovery.request(request),
                Intention::Append(incarnation, records) => {
                    if matches!(records.as_slice(), [.., LogRecord::Binding(_)]) {
                        kill_point::pass(KillPoint::Closed);
                    }
                    self.log.append(incarnation, records);
                }
                Intention::Compact(since) => self.log.compact(since),
                Intention::Open(tick) => {
                    self.tell_positions();
                    self.downgrade(tick);
                }
                Intention::AskPast => self.log.ask_past(),
                Intention::Publish { binding, next } => {
                    // A tick that is given again was bound before.
                    if Some(binding.tick) > self.bound_before {
                        for range in &binding.ranges {
                            self.discovery.bound(&range.split, &range.to);
                        }
                    }
                    let time = (self.options.time.time_of)(binding.tick);
                    self.bindings.give(Some(&time), binding);
                    if let Some(tick) = next {
                        self.downgrade(tick);
                    }
                }
                Intention::Know(split, identity) => self.discovery.known(&split, &identity),
                Intention::Forget(split) => self.discovery.forgotten(&split),
                Intention::Tell(SourceEvent::Health(health)) => self.say(health),
                Intention::Tell(event) => {
                    // It is told when it is durable.
                    if let SourceEvent::SplitResolved { split, start, .. } = &event {
                        self.discovery.bound(split, start);
                    }
                    self.options.observer.hear(&event);
                }
            }
        }
        if self.coordinator.ended() {
            self.directives.close();
            self.bindings.close();
            self.health.close();
        }
    }

    /// Tells the discovery where splits go on that the log had when it was opened.
    fn tell_positions(&mut self) {
        for (split, position) in std::mem::take(&mut self.untold) {
            self.discovery.bound(&split, &position);
        }
    }

    fn downgrade(&mut self, tick: Tick) {
        let time = (self.options.time.time_of)(tick);
        self.bindings.downgrade(&time);
        self.health.downgrade(&time);
    }

    fn say(&mut self, health: Health) {
        let event = SourceEvent::Health(health.clone());
        self.options.observer.hear(&event);
        let open = self.coordinator.open_tick();
        self.health
            .give(open.map(self.options.time.time_of).as_ref(), health);
    }
}

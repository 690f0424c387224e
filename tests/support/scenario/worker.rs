//! What each worker does: read, and tell what it sees.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use timely_kafka::KafkaSource;
use timely_kafka::records::{RecordBatch, RecordRef};
use timely_kafka::timely::Container;
use timely_kafka::timely::dataflow::Stream;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::generic::Operator;
use timely_kafka::timely::worker::Worker;
use tracing_subscriber::fmt::MakeWriter;

use super::observed::{Output, Seen};
use super::watched::Sink;

/// The longest time between two steps; whatever brings work wakes the worker earlier.
const STEP: Duration = Duration::from_millis(100);

/// Reads `source` on this worker until it has ended, and tells `sink` everything.
pub(crate) fn read_all(worker: &mut Worker, source: &KafkaSource, sink: &Sink) {
    let index = worker.index();
    let story = Story {
        worker: index,
        sink: Arc::clone(sink),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_level(false)
        .with_target(false)
        .without_time()
        .with_writer(story)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let running = Rc::new(RefCell::new(BTreeSet::from([
            Output::Batches,
            Output::Bindings,
        ])));
        let watch = Watch {
            worker: index,
            sink: Arc::clone(sink),
            running: Rc::clone(&running),
        };
        worker.dataflow::<u64, _, _>(|scope| {
            let read = source.read(scope);
            watch.all(read.batches, Some(Output::Batches), move |tick, batch| {
                batch_seen(index, tick, batch).into_iter().collect()
            });
            watch.each(read.bindings, Some(Output::Bindings), |tick, binding| {
                Seen::Binding { tick, binding }
            });
            watch.each(read.errors, None, |tick, error| Seen::Error { tick, error });
            watch.each(read.health, None, |_, health| Seen::Health(health));
        });
        while !running.borrow().is_empty() {
            worker.step_or_park(Some(STEP));
        }
    });
}

fn batch_seen(worker: usize, tick: u64, batch: &RecordBatch) -> Option<Seen> {
    let split = batch.split()?.clone();
    let records = batch
        .iter()
        .map(|record| (record.offset().get(), number(&record)));
    Some(Seen::Batch {
        worker,
        tick,
        records: records.collect(),
        split,
    })
}

/// The number that the value of a record is.
fn number(record: &RecordRef<'_>) -> u64 {
    let value = record
        .value()
        .map(String::from_utf8_lossy)
        .unwrap_or_default();
    value
        .parse()
        .unwrap_or_else(|_| panic!("the value {value:?} is no number"))
}

struct Watch {
    worker: usize,
    sink: Sink,
    /// The outputs whose frontier is not empty.
    running: Rc<RefCell<BTreeSet<Output>>>,
}

impl Watch {
    /// Tells what `seen` makes of every container of `stream`, and how its frontier moves.
    fn all<C: Container>(
        &self,
        stream: Stream<'_, u64, C>,
        output: Option<Output>,
        seen: impl Fn(u64, &mut C) -> Vec<Seen> + 'static,
    ) {
        let (worker, sink, running) = (
            self.worker,
            Arc::clone(&self.sink),
            Rc::clone(&self.running),
        );
        let mut before = Some(0);
        stream.sink(Pipeline, "Watch", move |(input, frontier)| {
            // Containers in their order, which operators that sort by time do not keep.
            input.for_each(|capability, container| {
                let tick = capability.stamp().iter().next().copied();
                let tick = tick.expect("every message has a time");
                seen(tick, container)
                    .into_iter()
                    .for_each(|seen| sink(seen));
            });
            let at = frontier.frontier().iter().next().copied();
            if let Some(output) = output
                && at != before
            {
                before = at;
                sink(Seen::Frontier { worker, output, at });
                if at.is_none() {
                    running.borrow_mut().remove(&output);
                }
            }
        });
    }

    /// Tells what `seen` makes of every element of `stream`.
    fn each<D: 'static>(
        &self,
        stream: Stream<'_, u64, Vec<D>>,
        output: Option<Output>,
        seen: impl Fn(u64, D) -> Seen + 'static,
    ) {
        self.all(stream, output, move |tick, elements: &mut Vec<D>| {
            elements
                .drain(..)
                .map(|element| seen(tick, element))
                .collect()
        });
    }
}

/// Takes the lines of the story that the source tells.
#[derive(Clone)]
struct Story {
    worker: usize,
    sink: Sink,
}

impl Write for Story {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        (self.sink)(Seen::Told {
            worker: self.worker,
            line: String::from_utf8_lossy(text).trim().to_owned(),
        });
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Story {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

//! Prints records tick by tick, on one worker.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use timely_kafka::timely::container::CapacityContainerBuilder;
use timely_kafka::timely::dataflow::channels::pact::Exchange;
use timely_kafka::timely::dataflow::operators::{Operator, Probe};
use timely_kafka::timely::dataflow::{ProbeHandle, Stream};
use timely_kafka::{BatchStream, Record, RecordBatch, SourceControl};

use crate::{complain, json, text};

/// How a record becomes a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Nothing comes out of the operator but its frontier.
type NothingBuilder = CapacityContainerBuilder<Vec<()>>;

pub(crate) struct Printer {
    format: Format,
    output: BufWriter<Arc<File>>,
    /// Nobody takes the output any more.
    closed: bool,
    control: SourceControl,
    failed: Arc<AtomicBool>,
}

impl Printer {
    /// A printer to `output`, which stops the source by `control` and sets `failed` if it cannot print.
    pub(crate) fn new(
        format: Format,
        output: Arc<File>,
        control: SourceControl,
        failed: Arc<AtomicBool>,
    ) -> Self {
        Self {
            format,
            output: BufWriter::new(output),
            closed: false,
            control,
            failed,
        }
    }

    /// Prints the records of all workers on worker 0.
    ///
    /// # Frontier
    ///
    /// `printed` passes a tick when its records are printed.
    pub(crate) fn print(
        mut self,
        batches: Stream<'_, u64, RecordBatch>,
        printed: &ProbeHandle<u64>,
    ) {
        let to_worker_0 = Exchange::new(|_: &Record| 0);
        batches
            .records()
            .unary_frontier::<NothingBuilder, _, _, _>(to_worker_0, "Print", |_, _| {
                // The capability of a tick is held until its records are printed.
                let mut ticks = BTreeMap::new();
                move |(input, frontier), _| {
                    input.for_each(|capability, records| {
                        let Some(tick) = capability.least().copied() else {
                            return;
                        };
                        let (_, waiting) = ticks
                            .entry(tick)
                            .or_insert_with(|| (capability.retain_least(0), Vec::new()));
                        waiting.append(records);
                    });
                    while let Some(entry) = ticks.first_entry() {
                        if frontier.less_equal(entry.key()) {
                            break;
                        }
                        let (tick, (_capability, records)) = entry.remove_entry();
                        self.print_tick(tick, records);
                    }
                }
            })
            .probe_with(printed);
    }

    fn print_tick(&mut self, tick: u64, mut records: Vec<Record>) {
        if self.closed {
            return;
        }
        // Records are ordered by split and offset.
        records.sort_unstable();
        let printed = records
            .iter()
            .try_for_each(|record| match self.format {
                Format::Text => text::write(&mut self.output, record),
                Format::Json => json::write(&mut self.output, record, tick),
            })
            .and_then(|()| self.output.flush());
        if let Err(error) = printed {
            // Whoever has seen enough closes the pipe: `head` does.
            if error.kind() != ErrorKind::BrokenPipe {
                self.failed.store(true, Ordering::SeqCst);
                complain(&format!("printing failed: {error}"));
            }
            self.closed = true;
            self.control.stop();
        }
    }
}

//! What the command line says.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use timely_kafka::model::StartAt;

use crate::printer::Format;

/// Prints the records of a Kafka stream as they come, from all clusters that it lives in.
#[derive(Debug, Parser)]
#[command(name = "tail", max_term_width = 100)]
pub(crate) struct Arguments {
    /// The file that says what streams consist of: .yaml, .yml, .json or .toml
    #[arg(long, value_name = "FILE")]
    pub(crate) metadata: PathBuf,

    /// Print what this file would change if it took the place of the other one, and end
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,

    /// The stream to read
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: String,

    /// Where to start in partitions for which the file does not say it
    #[arg(long, value_enum, default_value_t = From::Earliest, value_name = "WHERE")]
    pub(crate) from: From,

    /// Print one JSON object a line, flushed at each tick
    ///
    /// Its fields are cluster, topic, partition, offset, time, time_type, key, value, headers and tick.
    /// Keys and values are text. If one of the two is no UTF-8, both are base64 and the object has
    /// "encoding":"base64". A header is a pair of its name and its value; a value that is no UTF-8 is
    /// an object of its own, {"encoding":"base64","value":...}. Null is null everywhere.
    #[arg(long)]
    #[expect(clippy::doc_markdown, reason = "these are the words of --help")]
    json: bool,

    /// How many workers read, in each process
    #[arg(short, long, default_value_t = 1, value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,

    /// How many processes read; each is started with the same arguments, but for -p
    #[arg(short = 'n', long, default_value_t = 1, value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..))]
    processes: u16,

    /// Which of the processes this is, from 0; process 0 prints
    #[arg(short, long, default_value_t = 0, value_name = "INDEX")]
    pub(crate) process: u16,

    /// A file with the host:port of each process, one a line; otherwise all are on this host
    ///
    /// It is timely's -h, which is help here.
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
}

/// Where reading starts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum From {
    /// At the first record that is still there
    Earliest,
    /// After the last record that is there
    Latest,
}

impl std::convert::From<From> for StartAt {
    fn from(from: From) -> Self {
        match from {
            From::Earliest => Self::Earliest,
            From::Latest => Self::Latest,
        }
    }
}

impl Arguments {
    /// Finds out whether the processes that they name can be.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (process, processes) = (self.process, self.processes);
        if process >= processes {
            return Err(format!(
                "-p {process}: there is no such process; expected a number from 0 to {}, as -n is \
                 {processes}",
                processes - 1
            ));
        }
        let Some(file) = &self.hostfile else {
            return Ok(());
        };
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("hostfile {}: cannot be read: {error}", file.display()))?;
        let addresses = text.lines().count();
        if addresses < usize::from(processes) {
            return Err(format!(
                "hostfile {}: has {addresses} lines; expected the host:port of each of \
                 {processes} processes, one a line",
                file.display()
            ));
        }
        Ok(())
    }

    pub(crate) fn format(&self) -> Format {
        if self.json {
            Format::Json
        } else {
            Format::Text
        }
    }

    /// The arguments that are timely's, as timely reads them.
    pub(crate) fn timely(&self) -> impl Iterator<Item = String> + use<> {
        let mut arguments = vec!["tail".to_owned()];
        let numbers = [
            ("-w", self.workers),
            ("-n", self.processes),
            ("-p", self.process),
        ];
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        if let Some(file) = &self.hostfile {
            arguments.extend(["-h".to_owned(), file.display().to_string()]);
        }
        arguments.into_iter()
    }
}

/// The words about a stream that the metadata file does not describe.
pub(crate) fn unknown_stream(stream: &str, file: &Path, known: &[&str]) -> String {
    let file = file.display();
    if known.is_empty() {
        return format!("stream '{stream}' is not described by {file}, which describes none");
    }
    // A name that shares less than half of its letters with another was not meant to be that one.
    let distance = |name: &&&str| strsim::damerau_levenshtein(stream, name);
    let nearest = known
        .iter()
        .min_by_key(distance)
        .filter(|name| distance(name) * 2 <= stream.chars().count());
    match (known, nearest) {
        ([only], _) => {
            format!("stream '{stream}' is not described by {file}; expected '{only}'")
        }
        (_, nearest) => format!(
            "stream '{stream}' is not described by {file}; expected one of: {}{}",
            known.join(", "),
            nearest.map_or(String::new(), |name| format!("; did you mean '{name}'?"))
        ),
    }
}

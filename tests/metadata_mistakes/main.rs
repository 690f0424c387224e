//! Every wrong input that a metadata file can have, in each notation, and the words it gets.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot arrange is a failed test"
)]

mod fields;
mod hints;
mod properties;
mod removal;
mod starts;
mod stops;

use std::time::{Duration, Instant};

use timely_kafka::metadata::{FileMetadataService, MetadataService};

/// The words about a file with `text` whose name ends in `end`, after its path.
fn refused(end: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("streams.{end}"));
    std::fs::write(&path, text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);

    let error = FileMetadataService::new(&path).ask(deadline).unwrap_err();

    let before = format!("metadata file {}: ", path.display());
    let words = error.words();
    words.strip_prefix(&before).unwrap().to_owned()
}

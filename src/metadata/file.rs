//! A metadata service that reads a file.
//!
//! The problem: a file is seen while it is being written. A cut file can still parse, with other
//! content, so parsing does not tell; and a watch on a file misses what happens behind a symlink
//! that is swapped (a Kubernetes `ConfigMap` swaps one two levels up). So the bytes themselves are
//! read again and again, and count once they have stayed the same for a while.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::format::{Notation, read};
use super::{MetadataError, MetadataService, Mistake};
use crate::model::StreamsMetadata;

/// How long after an answer the file is read again. With [`SETTLE`] a change is noticed within a
/// second, also if one read is slow.
const INTERVAL: Duration = Duration::from_millis(400);

/// How long the bytes must stay the same before they count.
const SETTLE: Duration = Duration::from_millis(200);

/// The greatest file that is read: thousands of streams are some hundred kilobytes.
const BYTES_MAX: u64 = 16 << 20;

/// A metadata service that reads a YAML, JSON or TOML file and follows its changes.
///
/// A change is noticed within a second, and counts once the file has stayed the same for 0.2 s and
/// has no mistakes. A file that has mistakes, or is gone, is an error, and the last answer stays in
/// force. Whoever writes the file slower than that renames a complete one into its place.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use timely_kafka::metadata::{FileMetadataService, MetadataService};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("streams.yaml");
/// std::fs::write(
///     &path,
///     "
/// clusters:
///   east:
///     properties: { bootstrap.servers: '127.0.0.1:21000' }
/// streams:
///   orders:
///     east: { topics: [orders, orders-retry] }
/// ",
/// )?;
///
/// let mut service = FileMetadataService::new(&path);
/// let metadata = service.ask(Instant::now() + Duration::from_secs(10))?;
/// assert!(metadata.streams.contains_key("orders"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileMetadataService {
    path: PathBuf,
    settling: Settling,
    /// What the bytes that last counted say.
    last: Option<Said>,
}

/// Bytes, and what they say.
type Said = (Vec<u8>, Result<StreamsMetadata, Vec<Mistake>>);

impl FileMetadataService {
    /// A service that reads the file at `path`, in the notation that the end of its name says:
    /// `.yaml`, `.yml`, `.json` or `.toml`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            settling: Settling::default(),
            last: None,
        }
    }

    fn settled(&mut self, deadline: Instant) -> Result<Vec<u8>, MetadataError> {
        loop {
            let bytes = self.bytes()?;
            let now = Instant::now();
            let same = self.last.as_ref().is_some_and(|(last, _)| *last == bytes);
            if same {
                return Ok(bytes);
            }
            let Err(left) = self.settling.observe(&bytes, now) else {
                return Ok(bytes);
            };
            if now + left > deadline {
                let path = self.path.clone();
                return Err(MetadataError::Unsettled {
                    path,
                    settle: SETTLE,
                });
            }
            let nothing = crossbeam_channel::never::<()>().recv_timeout(left);
            debug_assert!(nothing.is_err(), "nobody can send on this channel");
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, MetadataError> {
        let bytes = bytes(&self.path).map_err(|source| MetadataError::Unreadable {
            path: self.path.clone(),
            source,
        })?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= BYTES_MAX) {
            return Ok(bytes);
        }
        Err(MetadataError::TooLarge {
            path: self.path.clone(),
            bytes_max: BYTES_MAX,
        })
    }
}

impl MetadataService for FileMetadataService {
    fn ask(&mut self, deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        let path = self.path.clone();
        if path.is_dir() {
            return Err(MetadataError::Directory { path });
        }
        let Some(notation) = Notation::of(&path) else {
            return Err(MetadataError::Notation { path });
        };
        let bytes = self.settled(deadline)?;
        let said = match self.last.take() {
            Some((last, said)) if last == bytes => said,
            _ => read(notation, &bytes),
        };
        self.last = Some((bytes, said.clone()));
        said.map_err(|mistakes| MetadataError::Mistakes { path, mistakes })
    }

    fn interval(&self) -> Option<Duration> {
        Some(INTERVAL)
    }
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Tells bytes that have stayed the same from those that are being written.
#[derive(Debug, Default)]
struct Settling {
    /// The bytes that were seen last, and when they were seen first.
    seen: Option<(Vec<u8>, Instant)>,
}

impl Settling {
    /// Takes what is read at `now`: fine if it was the same [`SETTLE`] ago, else how long until it
    /// can be.
    fn observe(&mut self, bytes: &[u8], now: Instant) -> Result<(), Duration> {
        match &self.seen {
            Some((seen, since)) if seen == bytes => {
                let left = SETTLE.saturating_sub(now.saturating_duration_since(*since));
                if left.is_zero() {
                    self.seen = None;
                    return Ok(());
                }
                Err(left)
            }
            _ => {
                self.seen = Some((bytes.to_owned(), now));
                Err(SETTLE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAMPLE: &str = "\
clusters:
  east:
    properties: { bootstrap.servers: \"127.0.0.1:21000\" }
  west:
    properties: { bootstrap.servers: \"127.0.0.1:21003\", client.rack: b }
streams:
  orders:
    east: { topics: [orders, orders-retry] }
    west:
      topics: [orders]
      start: latest
";

    #[test]
    fn bytes_count_when_they_are_the_same_a_while_later() {
        let mut settling = Settling::default();
        let start = Instant::now();

        assert_eq!(settling.observe(b"a", start), Err(SETTLE));
        assert_eq!(settling.observe(b"b", start + SETTLE), Err(SETTLE));
        let almost = start + SETTLE + SETTLE / 2;
        assert_eq!(settling.observe(b"b", almost), Err(SETTLE / 2));
        assert_eq!(settling.observe(b"b", start + SETTLE * 2), Ok(()));
    }

    /// The reason for the two reads: parsing does not tell that a file is cut.
    #[test]
    fn a_cut_file_can_parse_with_other_content() {
        let whole = read(Notation::Yaml, SAMPLE.as_bytes()).unwrap();
        let other = (1..SAMPLE.len())
            .filter_map(|cut| read(Notation::Yaml, &SAMPLE.as_bytes()[..cut]).ok())
            .filter(|metadata| *metadata != whole)
            .count();

        assert!(other > 0);
    }

    proptest! {
        /// The second half follows in time, read at whatever times.
        #[test]
        fn a_half_written_file_never_counts(
            cut in 0..SAMPLE.len(),
            written in 1_u64..200,
            steps in proptest::collection::vec(1_u64..300, 1..20),
        ) {
            let mut settling = Settling::default();
            let start = Instant::now();
            let mut now = Duration::ZERO;
            let mut counted = 0;
            for step in steps {
                let end = if now < Duration::from_millis(written) { cut } else { SAMPLE.len() };
                if settling.observe(&SAMPLE.as_bytes()[..end], start + now).is_ok() {
                    prop_assert_eq!(end, SAMPLE.len());
                    counted += 1;
                }
                now += Duration::from_millis(step);
            }
            prop_assert!(counted > 0 || now < Duration::from_millis(written) + SETTLE * 6);
        }
    }
}

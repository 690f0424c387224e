//! What reads splits: a thread that reads the assigned files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender, bounded, unbounded};
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::fetcher::{
    DownCause, Fetched, FetcherDown, Piece, Polled, SplitFetcher, cut_rows,
};
use timely_splits::health::FailureKind;
use timely_splits::wake::Waker;

use super::split::{Folder, LogFile};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A piece ends with the line that reaches this.
const PIECE_BYTES: u64 = 64 << 10;

/// A line, with the file that it is of and the position of its first byte.
pub(crate) type Line = (LogFile, u64, String);

/// Reads splits. It passes orders to a thread that reads, and hands over what that has read.
pub(crate) struct LogFetcher {
    /// Orders are as few as assignments. The end of the channel ends the thread.
    orders: Sender<Order>,
    /// Bounded: when nobody polls, the thread waits, and reads no further.
    read: Receiver<Fetched<LogFile, Vec<Line>>>,
}

enum Order {
    Read(LogFile, SplitEpoch, u64),
    Stop(LogFile, SplitEpoch),
}

impl LogFetcher {
    pub(crate) fn start(folder: PathBuf, waker: Waker) -> Self {
        let (orders, taken) = unbounded();
        let (sender, read) = bounded(16);
        let thread = ReadingThread {
            folder,
            files: BTreeMap::new(),
            read: sender,
            waker,
        };
        thread::spawn(move || thread.run(&taken));
        Self { orders, read }
    }
}

struct ReadingThread {
    folder: PathBuf,
    /// What is assigned, and where reading it goes on.
    files: BTreeMap<LogFile, (SplitEpoch, u64)>,
    read: Sender<Fetched<LogFile, Vec<Line>>>,
    waker: Waker,
}

impl ReadingThread {
    fn run(mut self, orders: &Receiver<Order>) {
        let mut wait = LOOK_EVERY;
        loop {
            let first = match orders.recv_timeout(wait) {
                Err(RecvTimeoutError::Disconnected) => return,
                order => order.ok(),
            };
            for order in first.into_iter().chain(orders.try_iter()) {
                self.obey(order);
            }
            wait = match self.look() {
                Ok(true) => Duration::ZERO,
                Ok(false) => LOOK_EVERY,
                Err(_) => return,
            };
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Read(file, epoch, start) => {
                self.files.insert(file, (epoch, start));
            }
            // An assignment that another one has replaced is over already.
            Order::Stop(file, ended) => {
                if self
                    .files
                    .get(&file)
                    .is_some_and(|(epoch, _)| *epoch == ended)
                {
                    self.files.remove(&file);
                }
            }
        }
    }

    /// Reads a piece of each file, and says whether there was one; fails when nobody listens.
    fn look(&mut self) -> Result<bool, SendError<Fetched<LogFile, Vec<Line>>>> {
        let mut any = false;
        for (file, (epoch, next)) in std::mem::take(&mut self.files) {
            let (fetched, next) = match piece(&self.folder, &file, epoch, next) {
                Ok(None) => {
                    self.files.insert(file, (epoch, next));
                    continue;
                }
                Ok(Some(piece)) => {
                    let end = piece.end;
                    (Fetched::Piece(piece), Some(end))
                }
                // Not read any more, until the reader assigns it again.
                Err(error) => (Fetched::Down(down(&file, epoch, &error)), None),
            };
            any |= next.is_some();
            self.files.extend(next.map(|next| (file, (epoch, next))));
            self.read.send(fetched)?;
            self.waker.wake();
        }
        Ok(any)
    }
}

/// The whole lines of a file from `start` on, if there is one.
fn piece(
    folder: &Path,
    file: &LogFile,
    split_epoch: SplitEpoch,
    start: u64,
) -> io::Result<Option<Piece<LogFile, Vec<Line>>>> {
    let mut opened = File::open(folder.join(&*file.0))?;
    let size = opened.metadata()?.len();
    if size < start {
        let words = format!("it has {size} bytes, expected {start} at least");
        return Err(io::Error::new(ErrorKind::InvalidData, words));
    }
    opened.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::new(opened);
    let (mut lines, mut line, mut end) = (Vec::new(), Vec::new(), start);
    // A line without its end is still being written.
    while end - start < PIECE_BYTES
        && reader.read_until(b'\n', &mut line)? > 0
        && line.ends_with(b"\n")
    {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        lines.push((file.clone(), end, text));
        end += line.len() as u64;
        line.clear();
    }
    Ok((end > start).then(|| Piece {
        split: file.clone(),
        split_epoch,
        start,
        end,
        bytes: usize::try_from(end - start).unwrap_or(usize::MAX),
        batch: Some(lines),
    }))
}

fn down(file: &LogFile, split_epoch: SplitEpoch, error: &io::Error) -> FetcherDown<LogFile> {
    let kind = match error.kind() {
        ErrorKind::InvalidData => FailureKind::Definite,
        _ => FailureKind::Transient,
    };
    FetcherDown {
        split: file.clone(),
        split_epoch,
        cause: DownCause::Failed(kind),
        message: format!("file {file}: {error}"),
    }
}

impl SplitFetcher<LogFile> for LogFetcher {
    type Batch = Vec<Line>;

    fn adopt(&mut self, _epoch: MetadataEpoch, _folder: &Folder) {}

    fn assign(&mut self, file: &LogFile, split_epoch: SplitEpoch, start: &u64) {
        let order = Order::Read(file.clone(), split_epoch, *start);
        self.orders.send(order).ok();
    }

    fn unassign(&mut self, file: &LogFile, split_epoch: SplitEpoch) {
        self.orders
            .send(Order::Stop(file.clone(), split_epoch))
            .ok();
    }

    fn cut(&mut self, batch: Vec<Line>, at: &[u64]) -> Vec<Option<Vec<Line>>> {
        cut_rows(batch, at, |line| line.1)
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Fetched<LogFile, Vec<Line>>>) -> Polled {
        let mut bytes = 0;
        while bytes < bytes_max {
            let Ok(one) = self.read.try_recv() else {
                // The thread wakes the operator after each that it adds from here on.
                return Polled::Drained;
            };
            if let Fetched::Piece(piece) = &one {
                bytes += piece.bytes;
            }
            fetched.push(one);
        }
        Polled::More
    }
}

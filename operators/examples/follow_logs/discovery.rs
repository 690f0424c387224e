//! What finds splits: a thread that looks into the folder.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit, SplitDiscovery};
use timely_splits::health::{FailureKind, Health, HealthStatus};
use timely_splits::loss::Remains;
use timely_splits::wake::Waker;

use super::split::{Folder, LogFile};

const LOOK_EVERY: Duration = Duration::from_millis(20);

fn look(folder: &Path) -> io::Result<Folder> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".log") {
            files.insert(LogFile(name.into()));
        }
    }
    Ok(Folder(files))
}

/// Finds splits. A thread looks into the folder; the timely thread never touches the disk.
pub(crate) struct FolderDiscovery {
    /// What the thread saw. It holds one answer: the thread waits until somebody polls.
    seen: Receiver<DiscoveryEvent<LogFile>>,
    /// The answers to the latest request to discover, which replace those before.
    found: VecDeque<DiscoveryEvent<LogFile>>,
    resolved: VecDeque<DiscoveryEvent<LogFile>>,
    waker: Waker,
    /// Dropped with this, which ends the thread.
    _running: Sender<()>,
}

impl FolderDiscovery {
    pub(crate) fn start(folder: PathBuf, waker: Waker) -> Self {
        let (running, ended) = bounded::<()>(0);
        let (sender, seen) = bounded(1);
        let woken = waker.clone();
        thread::spawn(move || {
            let mut last = None;
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                // A folder that cannot be read is not an empty one: what is known stays.
                let saw = look(&folder).map_err(|error| error.to_string());
                if last.as_ref() != Some(&saw) {
                    let event = match saw.clone() {
                        Ok(files) => DiscoveryEvent::Metadata(files),
                        Err(error) => DiscoveryEvent::Health(Health::new(
                            format!("folder {}", folder.display()),
                            HealthStatus::Failing(FailureKind::Transient),
                            error,
                        )),
                    };
                    last = Some(saw);
                    sender.send(event).ok();
                    woken.wake();
                }
            }
        });
        Self {
            seen,
            found: VecDeque::new(),
            resolved: VecDeque::new(),
            waker,
            _running: running,
        }
    }
}

impl SplitDiscovery<LogFile> for FolderDiscovery {
    fn request(&mut self, request: DiscoveryRequest<LogFile>) {
        match request {
            // A file that is listed exists: that was seen.
            DiscoveryRequest::Discover { epoch, metadata } => {
                let files = metadata.0.into_iter();
                let splits = files.map(|file| FoundSplit::new(file, ())).collect();
                let found = DiscoveryEvent::Found { epoch, splits };
                self.found = VecDeque::from([found, DiscoveryEvent::AllFound { epoch }]);
            }
            // Files only grow while they are there.
            DiscoveryRequest::Check { request, .. } => {
                let lost = Vec::new();
                self.resolved
                    .push_back(DiscoveryEvent::Checked { request, lost });
            }
            // What a file is is known by its name alone.
            DiscoveryRequest::Identify { request, splits } => {
                let splits = splits.into_iter().map(|split| (split, Some(()))).collect();
                self.resolved
                    .push_back(DiscoveryEvent::Identified { request, splits });
            }
            // The fetcher fails where others would say that something is lost.
            DiscoveryRequest::Judge { request, split } => {
                let remains = Remains {
                    identity: Some(()),
                    first: 0,
                    end: 0,
                };
                self.resolved.push_back(DiscoveryEvent::Judged {
                    request,
                    split,
                    remains,
                });
            }
            // A file that is not listed is read no further: nothing is ever drained.
            DiscoveryRequest::End { request, split } => {
                self.resolved.push_back(DiscoveryEvent::End {
                    request,
                    split,
                    end: 0,
                });
            }
            DiscoveryRequest::Resolve { request, split, .. } => {
                self.resolved.push_back(DiscoveryEvent::Resolved {
                    request,
                    split,
                    start: 0,
                    stop: None,
                    rule: "earliest".to_owned(),
                });
            }
        }
        self.waker.wake();
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<LogFile>> {
        let own = (self.found.pop_front()).or_else(|| self.resolved.pop_front());
        own.or_else(|| self.seen.try_recv().ok())
    }
}

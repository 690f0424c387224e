//! How the processes of a run meet.
//!
//! Timely's own way takes everybody who connects for one of its processes: a port scan or eight bytes of
//! nonsense end the process, a connection that says nothing is waited for for ever, and a process that was
//! left over from another run is let in. Here each connection begins with a [handshake](super::handshake), a
//! stranger is put out after two seconds at most, and nobody waits for another one meanwhile.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::handshake::{ANSWER_BYTES, HELLO_BYTES, Hello, RunToken, Shape, Verdict, may_be_hello};

/// How long whoever connects has for the handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(2);

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// How soon a process that is not there is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How many connections may be in their handshake; the oldest gives way to a further one.
const GUESTS_MAX: usize = 64;

/// How often something is logged about a process that is waited for.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// A process that meets others.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    pub(super) run: RunToken,
    /// The index of this process.
    pub(super) index: usize,
    /// How many workers each process has.
    pub(super) workers: usize,
    /// Where each process listens.
    pub(super) addresses: Vec<String>,
    /// For how long the others are waited for.
    pub(super) within: Duration,
}

/// Why the processes did not meet.
#[derive(Debug, thiserror::Error)]
pub(super) enum MeetingError {
    #[error("process {index}: listening at {address} failed: {source}")]
    Listening {
        index: usize,
        address: String,
        source: io::Error,
    },
    #[error("process {index}: waiting for others failed: {source}")]
    Waiting { index: usize, source: io::Error },
    #[error(
        "process {index}: process {missing} at {address} did not come within {within:?}{why}; expected \
         all processes to be started, with the same arguments but for their index"
    )]
    Missing {
        index: usize,
        missing: usize,
        address: String,
        within: Duration,
        why: String,
    },
    #[error("process {index}: there is no such process; expected an index below {processes}")]
    Index { index: usize, processes: usize },
}

/// Another process.
enum Peer {
    /// It has a greater index and will connect.
    Awaited,
    /// It has a smaller index and is tried again at this time.
    Absent(Instant),
    /// It was said hello to, and has to answer by this time.
    Greeted(Partial<ANSWER_BYTES>),
    /// The handshake is done.
    Met(TcpStream),
}

/// A message that has not come completely.
struct Partial<const N: usize> {
    stream: TcpStream,
    bytes: [u8; N],
    read: usize,
    until: Instant,
}

/// What came of a message.
enum Progress<const N: usize> {
    Waiting(Partial<N>),
    Whole(TcpStream, [u8; N]),
    Closed,
}

impl<const N: usize> Partial<N> {
    fn new(stream: TcpStream, now: Instant) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            bytes: [0; N],
            read: 0,
            until: now + HANDSHAKE_WITHIN,
        })
    }

    /// Reads what has come, and no byte more than the message.
    fn advance(mut self, now: Instant) -> Progress<N> {
        while self.read < N {
            match self.stream.read(&mut self.bytes[self.read..]) {
                Ok(0) => return Progress::Closed,
                Ok(count) => self.read += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if now >= self.until {
                        return Progress::Closed;
                    }
                    return Progress::Waiting(self);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Closed,
            }
        }
        Progress::Whole(self.stream, self.bytes)
    }
}

/// A meeting under way.
struct Party<'a> {
    meeting: &'a Meeting,
    shape: Shape,
    listeners: Vec<TcpListener>,
    peers: Vec<Option<Peer>>,
    /// Whoever has connected and not said who they are.
    guests: Vec<Partial<HELLO_BYTES>>,
    /// What the last one who refused this process said.
    refused: Option<Verdict>,
}

impl Meeting {
    /// Waits until all processes are connected; the connection to each, but for this one.
    pub(super) fn meet(&self) -> Result<Vec<Option<TcpStream>>, MeetingError> {
        let (index, processes) = (self.index, self.addresses.len());
        if index >= processes {
            return Err(MeetingError::Index { index, processes });
        }
        let began = Instant::now();
        let mut party = Party::new(self, began)?;
        let mut said = began;
        loop {
            let now = Instant::now();
            let waiting = |source| MeetingError::Waiting { index, source };
            party.step(now).map_err(waiting)?;
            let Some(missing) = party.missing() else {
                return party.finish().map_err(waiting);
            };
            let address = self.addresses[missing].clone();
            if now.duration_since(began) >= self.within {
                let why = party
                    .refused
                    .map(|verdict| format!("; another process refused this one, since {verdict}"));
                return Err(MeetingError::Missing {
                    index,
                    missing,
                    address,
                    within: self.within,
                    why: why.unwrap_or_default(),
                });
            }
            if now.duration_since(said) >= SAY_EVERY {
                said = now;
                tracing::info!("process {index}: waits for process {missing} at {address}");
            }
            party.wait().map_err(waiting)?;
        }
    }
}

impl<'a> Party<'a> {
    fn new(meeting: &'a Meeting, now: Instant) -> Result<Self, MeetingError> {
        let (index, processes) = (meeting.index, meeting.addresses.len());
        let mut listeners = Vec::new();
        // The last process connects to all others, and nobody to it.
        let own = meeting.addresses[index].split_whitespace();
        for address in own.filter(|_| index + 1 < processes) {
            let listen = || {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            };
            listeners.push(listen().map_err(|source| MeetingError::Listening {
                index,
                address: address.to_owned(),
                source,
            })?);
        }
        let peers = (0..processes).map(|peer| match peer.cmp(&index) {
            std::cmp::Ordering::Less => Some(Peer::Absent(now)),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Peer::Awaited),
        });
        Ok(Self {
            meeting,
            shape: Shape {
                run: meeting.run,
                processes: number(processes),
                workers: number(meeting.workers),
            },
            listeners,
            peers: peers.collect(),
            guests: Vec::new(),
            refused: None,
        })
    }

    /// The first process that was not met.
    fn missing(&self) -> Option<usize> {
        let met = |peer: &Option<Peer>| matches!(peer, None | Some(Peer::Met(_)));
        self.peers.iter().position(|peer| !met(peer))
    }

    /// Does what can be done without waiting.
    fn step(&mut self, now: Instant) -> io::Result<()> {
        for listener in &self.listeners {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => {
                        if self.guests.len() == GUESTS_MAX {
                            self.guests.remove(0);
                        }
                        // Who is gone already was nobody.
                        self.guests.extend(Partial::new(stream, now).ok());
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // Of one connection, which is gone: the next is another one.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                        ) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        for guest in std::mem::take(&mut self.guests) {
            self.hear(guest, now);
        }
        for index in 0..self.peers.len() {
            let peer = self.peers[index].take();
            self.peers[index] = peer.map(|peer| self.advance(index, peer, now));
        }
        Ok(())
    }

    /// Hears who a guest is, and lets them in or puts them out.
    fn hear(&mut self, guest: Partial<HELLO_BYTES>, now: Instant) {
        let from = guest.stream.peer_addr().ok();
        let (mut stream, bytes) = match guest.advance(now) {
            Progress::Waiting(guest) if may_be_hello(&guest.bytes[..guest.read]) => {
                self.guests.push(guest);
                return;
            }
            Progress::Whole(stream, bytes) => (stream, bytes),
            Progress::Waiting(_) | Progress::Closed => return stranger(from),
        };
        let Some(hello) = Hello::decode(&bytes) else {
            return stranger(from);
        };
        let verdict = hello.verdict(&self.shape, number(self.meeting.index));
        // So few bytes have room in a connection that was just made.
        let answered = stream.write_all(&verdict.encode());
        if verdict != Verdict::Welcome {
            tracing::warn!(
                "process {}: refused process {} at {}, since {verdict}",
                self.meeting.index,
                hello.from,
                shown(from)
            );
        } else if answered.is_ok()
            && let Some(peer) = self.peers.get_mut(hello.from as usize)
        {
            // One that was met before and comes again was started again.
            *peer = Some(Peer::Met(stream));
        }
    }

    /// What becomes of a peer.
    fn advance(&mut self, index: usize, peer: Peer, now: Instant) -> Peer {
        let again = Peer::Absent(now + AGAIN_AFTER);
        match peer {
            Peer::Awaited => Peer::Awaited,
            Peer::Absent(until) if now < until => Peer::Absent(until),
            Peer::Absent(_) => self.greet(index, now).map_or(again, Peer::Greeted),
            Peer::Greeted(answer) => match answer.advance(now) {
                Progress::Waiting(answer) => Peer::Greeted(answer),
                Progress::Closed => again,
                Progress::Whole(stream, bytes) => match Verdict::decode(&bytes) {
                    Some(Verdict::Welcome) => Peer::Met(stream),
                    refused => {
                        self.refused = refused.or(self.refused);
                        again
                    }
                },
            },
            Peer::Met(stream) if is_closed(&stream) => {
                if index < self.meeting.index {
                    again
                } else {
                    Peer::Awaited
                }
            }
            Peer::Met(stream) => Peer::Met(stream),
        }
    }

    /// Connects to a process and says hello.
    fn greet(&self, index: usize, now: Instant) -> io::Result<Partial<ANSWER_BYTES>> {
        let hello = Hello {
            shape: self.shape,
            from: number(self.meeting.index),
            to: number(index),
        };
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for text in self.meeting.addresses[index].split_whitespace() {
            for address in text.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                    Ok(mut stream) => {
                        stream.write_all(&hello.encode())?;
                        return Partial::new(stream, now);
                    }
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    /// Waits until something has come, or for a while.
    fn wait(&self) -> io::Result<()> {
        let greeted = self.peers.iter().filter_map(|peer| match peer {
            Some(Peer::Greeted(answer)) => Some(PollFd::new(&answer.stream, PollFlags::IN)),
            _ => None,
        });
        let listeners = self.listeners.iter();
        let guests = self.guests.iter();
        let mut fds: Vec<PollFd<'_>> = listeners
            .map(|listener| PollFd::new(listener, PollFlags::IN))
            .chain(guests.map(|guest| PollFd::new(&guest.stream, PollFlags::IN)))
            .chain(greeted)
            .collect();
        let time = Timespec::try_from(AGAIN_AFTER).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn finish(self) -> io::Result<Vec<Option<TcpStream>>> {
        let streams = self.peers.into_iter().map(|peer| match peer {
            Some(Peer::Met(stream)) => {
                stream.set_nonblocking(false)?;
                Ok(Some(stream))
            }
            _ => Ok(None),
        });
        streams.collect()
    }
}

/// Whether the other side of a connection is gone.
fn is_closed(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

fn stranger(from: Option<SocketAddr>) {
    tracing::warn!(
        "a connection from {} was closed: it is of no process of this dataflow",
        shown(from)
    );
}

fn shown(address: Option<SocketAddr>) -> String {
    address.map_or_else(
        || "an unknown address".to_owned(),
        |address| address.to_string(),
    )
}

/// A count of processes or workers, of which there are never so many.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

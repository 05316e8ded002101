//! A process that runs units, or a recovery, for somebody who attends to it: who tells on its standard input how far its journal is kept
//! elsewhere, and whose end is its end. One that serves gets further units there as well, and says there how each order ended.
//!
//! Property: *once the other end of standard input is closed, nothing with an effect begins, and what was started is ended.* No cleanup is
//! run then: that is what the journal is kept elsewhere for.
#![expect(
    clippy::disallowed_methods,
    reason = "standard input is how it is attended, and its end is the end of the process"
)]

use std::{
    io::{BufRead, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        mpsc::{Receiver, channel},
    },
};

use serde::{Deserialize, Serialize};

use super::recover::end_processes;
use crate::{
    host::RealHost,
    journal::{Past, gate},
};

/// The first argument of such a process, and of one that serves: its standard input is a socket.
pub const ARGUMENT: &str = "__attended";
pub const SERVING: &str = "__serving";
/// The exit status, which nobody is there to read.
const ABANDONED: i32 = 3;

/// Of a process that serves: what it is asked for.
static ORDERS: OnceLock<Mutex<Receiver<Order>>> = OnceLock::new();

/// Units that are run next, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub out: PathBuf,
    /// Their ids.
    pub units: Vec<String>,
    /// None but the first one is begun after so many seconds.
    pub seconds: f64,
}

/// What such a process says there.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The exit status of an order.
    Ended(u8),
    /// How many cleanups a recovery has done, and what is left, for people.
    Recovered { done: u32, left: Vec<String> },
}

/// Attends from now on.
pub fn begin(serving: bool) {
    gate::attend();
    let (sender, receiver) = channel();
    if serving {
        ORDERS.get_or_init(|| Mutex::new(receiver));
    }
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines();
        for line in lines.map_while(Result::ok) {
            if let Ok(bytes) = line.trim().parse() {
                gate::kept(bytes);
            } else if let Ok(order) = serde_json::from_str(&line) {
                let _ = sender.send(order);
            }
        }
        end();
    });
}

/// Whether more may be asked for.
pub fn is_serving() -> bool {
    ORDERS.get().is_some()
}

/// Waits for the next order; none where nobody asks for more.
pub fn next() -> Option<Order> {
    let order = ORDERS.get()?.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?;
    gate::renew();
    Some(order)
}

/// Says something to who attends; none where nobody does.
pub fn answer(answer: &Answer) -> Option<()> {
    if !gate::is_attended() {
        return None;
    }
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    socket.write_all(format!("{}\n", serde_json::to_string(answer).ok()?).as_bytes()).ok()
}

/// Ends what was started, and this process.
fn end() -> ! {
    let runs = gate::abandoned();
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        runtime.block_on(end_all(&runs));
    }
    std::process::exit(ABANDONED)
}

/// Ends what runs with these folders have started. Their processes may still have been about to start something, so it is done until there is
/// nothing to end.
pub async fn end_all(runs: &[PathBuf]) {
    const ROUNDS: usize = 10;
    let host = RealHost::new();
    for _ in 0..ROUNDS {
        let mut ended = 0;
        for run in runs {
            if let Ok((past, _)) = Past::read(run) {
                ended += end_processes(&past, &host).await;
            }
        }
        if ended == 0 {
            return;
        }
    }
}

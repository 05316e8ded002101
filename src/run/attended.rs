//! A process that runs units, or a recovery, on behalf of an attending process. The attending process reports on our standard input how
//! much of the journal is kept elsewhere; when that input closes, this process ends. A serving process also receives further units there,
//! and answers there with how each order ended.
//!
//! Property: *once the other end of standard input is closed, no action with an effect starts, and everything that was started is ended.*
//! No cleanup is run then: the journal is kept elsewhere for that purpose.
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

/// The first argument of such a process, and of a serving one: its standard input is a socket.
pub const ARGUMENT: &str = "__attended";
pub const SERVING: &str = "__serving";
/// The exit status of an abandoned process; there is nobody left to read it.
const ABANDONED: i32 = 3;

/// The orders of a serving process.
static ORDERS: OnceLock<Mutex<Receiver<Order>>> = OnceLock::new();

/// Units to run next, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub out: PathBuf,
    /// The ids of the units.
    pub units: Vec<String>,
    /// After this many seconds, no further unit is started; the first one always is.
    pub seconds: f64,
}

/// What such a process writes back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The exit status of an order.
    Ended(u8),
    /// How many cleanups a recovery completed, and which are left, for people.
    Recovered { done: u32, left: Vec<String> },
}

/// Starts attending.
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

/// Whether this process accepts further orders.
pub fn is_serving() -> bool {
    ORDERS.get().is_some()
}

/// Waits for the next order; returns `None` if there will be no more.
pub fn next() -> Option<Order> {
    let order = ORDERS.get()?.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?;
    gate::renew();
    Some(order)
}

/// Sends an answer to the attending process; returns `None` if there is none.
pub fn answer(answer: &Answer) -> Option<()> {
    if !gate::is_attended() {
        return None;
    }
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    socket.write_all(format!("{}\n", serde_json::to_string(answer).ok()?).as_bytes()).ok()
}

/// Ends everything that was started, then this process.
fn end() -> ! {
    let runs = gate::abandoned();
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        runtime.block_on(end_all(&runs));
    }
    std::process::exit(ABANDONED)
}

/// Ends what the runs in these directories have started. Their processes may have been about to start something, so this repeats until
/// nothing is left to end.
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

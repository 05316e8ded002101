//! Signals that ask gevals to stop, and how repeated signals are understood.
//!
//! A program that stops another one may signal both the process and its group, as `timeout` does, or send different signals in
//! turn, as CI does before it kills: neither asks for more than the first signal did. Only the same signal again, a second later,
//! stops the cleanup as well.
#![cfg_attr(target_os = "linux", expect(clippy::disallowed_methods, reason = "/proc tells which signals are ignored"))]

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Signals of the same kind within this time count as one.
pub const ECHO: Duration = Duration::from_secs(1);

/// A signal that asks gevals to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    Hup,
    Int,
    Term,
}

impl Interrupt {
    /// The name, as listed by `kill -l`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hup => "SIGHUP",
            Self::Int => "SIGINT",
            Self::Term => "SIGTERM",
        }
    }

    /// The exit status of a run stopped by this signal.
    pub fn exit(self) -> u8 {
        match self {
            Self::Hup => 129,
            Self::Int => 130,
            Self::Term => 143,
        }
    }
}

/// Listens to SIGINT, SIGTERM and SIGHUP from now on. If SIGHUP is ignored, as under `nohup`, it stays ignored. A file that reaches the
/// limit of `ulimit -f` is from now on an error of the write, like a full disk, and does not end the process.
///
/// # Errors
/// Signals cannot be listened to.
pub fn interrupts() -> std::io::Result<UnboundedReceiver<Interrupt>> {
    use tokio::signal::unix::{SignalKind, signal};
    // Its listener is dropped, but it stays handled.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut hup = if hup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        loop {
            let hung_up = async {
                match &mut hup {
                    Some(hup) => hup.recv().await,
                    None => std::future::pending().await,
                }
            };
            let signal = tokio::select! {
                Some(()) = int.recv() => Interrupt::Int,
                Some(()) = term.recv() => Interrupt::Term,
                Some(()) = hung_up => Interrupt::Hup,
                else => return,
            };
            if sender.send(signal).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Whether the parent made this process ignore SIGHUP; can only be determined on Linux.
fn hup_is_ignored() -> bool {
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// The signals received so far.
#[derive(Clone, Default, Debug)]
pub struct Heard {
    first: Option<Interrupt>,
    /// When the first signal of each kind arrived.
    kinds: Vec<(Interrupt, Duration)>,
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// Stop what runs, and clean up.
    Stop,
    /// Stop the cleanup as well.
    Again,
    /// Nothing new.
    Nothing,
}

impl Heard {
    /// Records a signal; `now` is the time on any monotonic clock.
    pub fn hear(&mut self, signal: Interrupt, now: Duration) -> Asks {
        let earlier = self.kinds.iter().find(|(kind, _)| *kind == signal).map(|(_, at)| *at);
        match (self.first, earlier) {
            (None, _) => {
                self.first = Some(signal);
                self.kinds.push((signal, now));
                Asks::Stop
            }
            (Some(_), None) => {
                self.kinds.push((signal, now));
                Asks::Nothing
            }
            (Some(_), Some(at)) if now.saturating_sub(at) < ECHO => Asks::Nothing,
            (Some(_), Some(_)) => Asks::Again,
        }
    }

    /// The signal that stopped the run.
    pub fn first(&self) -> Option<Interrupt> {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(signals: &[(u64, Interrupt)]) -> Vec<Asks> {
        let mut heard = Heard::default();
        signals.iter().map(|&(at, signal)| heard.hear(signal, Duration::from_millis(at))).collect()
    }

    #[test]
    fn repeated_signals_of_one_stop_count_once() {
        use Asks::{Again, Nothing, Stop};
        use Interrupt::{Hup, Int, Term};
        // `timeout` signals the process and its group.
        assert_eq!(asked(&[(0, Term), (1, Term)]), [Stop, Nothing]);
        // GitHub Actions; SIGKILL follows.
        assert_eq!(asked(&[(0, Int), (7500, Term)]), [Stop, Nothing]);
        // A closed terminal, and a shell that ends its jobs.
        assert_eq!(asked(&[(0, Hup), (3, Term), (4, Hup)]), [Stop, Nothing, Nothing]);
        // A user who insists.
        assert_eq!(asked(&[(0, Int), (400, Int), (1000, Int)]), [Stop, Nothing, Again]);
        assert_eq!(asked(&[(0, Int), (7500, Term), (9000, Term)]), [Stop, Nothing, Again]);
    }
}

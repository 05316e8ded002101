//! Signals that ask for an end, and which of them asks for it once more.
//!
//! One stop is one stop. A program that stops another may send a signal to it and to its group, as `timeout` does, or one kind of
//! signal after another, as CI does before it kills: neither asks for more than the first signal did. What stops cleanup too is
//! the same signal again, a second later.
#![cfg_attr(target_os = "linux", expect(clippy::disallowed_methods, reason = "/proc tells which signals are ignored"))]

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Signals of one kind within this time are one.
pub const ECHO: Duration = Duration::from_secs(1);

/// A signal that asks for an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    Hup,
    Int,
    Term,
}

impl Interrupt {
    /// As `kill -l` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hup => "SIGHUP",
            Self::Int => "SIGINT",
            Self::Term => "SIGTERM",
        }
    }

    /// The exit status of what was stopped by it.
    pub fn exit(self) -> u8 {
        match self {
            Self::Hup => 129,
            Self::Int => 130,
            Self::Term => 143,
        }
    }
}

/// SIGINT, SIGTERM and SIGHUP of this process, from now on. A SIGHUP that is ignored, as under `nohup`, stays so.
///
/// # Errors
/// Where signals cannot be listened to.
pub fn interrupts() -> std::io::Result<UnboundedReceiver<Interrupt>> {
    use tokio::signal::unix::{SignalKind, signal};
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

/// Whether the parent made this process ignore SIGHUP; known on Linux only.
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

/// What was heard so far.
#[derive(Clone, Default, Debug)]
pub struct Heard {
    first: Option<Interrupt>,
    /// When the first of each kind came.
    kinds: Vec<(Interrupt, Duration)>,
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// An end: what runs is stopped, and cleaned up.
    Stop,
    /// An end of cleanup as well.
    Again,
    /// Nothing that was not asked for already.
    Nothing,
}

impl Heard {
    /// A signal came; `now` is the time on any clock that does not go back.
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

    /// The signal that ended it all.
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
    fn one_stop_is_one_stop() {
        use Asks::{Again, Nothing, Stop};
        use Interrupt::{Hup, Int, Term};
        // `timeout` signals the process and its group.
        assert_eq!(asked(&[(0, Term), (1, Term)]), [Stop, Nothing]);
        // GitHub Actions: SIGKILL follows.
        assert_eq!(asked(&[(0, Int), (7500, Term)]), [Stop, Nothing]);
        // A terminal that is closed, and a shell that ends its jobs.
        assert_eq!(asked(&[(0, Hup), (3, Term), (4, Hup)]), [Stop, Nothing, Nothing]);
        // A user who means it.
        assert_eq!(asked(&[(0, Int), (400, Int), (1000, Int)]), [Stop, Nothing, Again]);
        assert_eq!(asked(&[(0, Int), (7500, Term), (9000, Term)]), [Stop, Nothing, Again]);
    }
}

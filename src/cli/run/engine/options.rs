//! The options of `gevals run` for an engine.

use std::time::Duration;

use crate::{cli::worker, ty::duration};

/// Which engine starts the units of a pack, and how.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
#[command(next_help_heading = "Engine")]
pub struct Options {
    /// The engine that starts the units of a pack on other machines; `--parallel` is the number in parallel on all of them together.
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub engine: Option<Engine>,
    #[command(flatten)]
    pub server: worker::Server,
    /// The name of this run: a name is used only once per pack, and repeating an ended run writes its results again.
    #[arg(long, value_name = "NAME", requires = "engine", value_parser = worker::name)]
    pub name: Option<String>,
    /// Number of times to retry a broken unit. A unit that is lost with its worker is always run again, and a verdict never is.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "engine", value_parser = clap::value_parser!(u32).range(..=10))]
    pub retries: u32,
    /// Maximum number of units with models of a provider to start per minute: `openai=30`.
    #[arg(long, value_name = "PROVIDER=N", requires = "engine", value_parser = rate)]
    pub rate: Vec<(String, f64)>,
    /// Maximum total duration of short units that are sent to a worker as one batch; `0s` sends each unit separately.
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "engine", value_parser = batch)]
    pub batch: Duration,
    /// Time without a response from a worker after which others clean up after its units and run them again.
    #[arg(long, value_name = "DURATION", default_value = "30s", requires = "engine", value_parser = silence)]
    pub silence: Duration,
}

/// Engines that a client drives; for others `gevals emit` writes a file.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Temporal,
}

fn rate(text: &str) -> Result<(String, f64), String> {
    let wrong = || "write a provider and a number, such as `openai=30`".to_owned();
    let (provider, number) = text.split_once('=').ok_or_else(wrong)?;
    match number.parse() {
        Ok(number) if f64::is_finite(number) && number > 0.0 && !provider.is_empty() => {
            Ok((provider.to_owned(), number))
        }
        _ => Err(wrong()),
    }
}

fn silence(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(silence) if silence >= Duration::from_secs(5) && silence <= Duration::from_secs(3600) => Ok(silence),
        Ok(_) => Err("write a time from 5 s to 1 h".to_owned()),
        Err(fault) => Err(format!("{fault}; write a duration such as `30s` or `1m30s`")),
    }
}

fn batch(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(batch) if batch <= Duration::from_secs(60) => Ok(batch),
        Ok(_) => Err("write a time of at most 1 min".to_owned()),
        Err(fault) => Err(format!("{fault}; write a duration such as `2s`")),
    }
}

//! Exports traces: to a file, as one line of JSON each (OTLP File Exporter), or to a collector, as protobuf over HTTP
//! (OTLP/HTTP).

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    trace::v1::TracesData,
};
use prost::Message;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

use super::{Surroundings, Traces, pairs};
use crate::{
    event::Event,
    host::{Host, HttpRequest, disk},
    plan::EvalPlan,
    secrets,
};

/// How long a collector has to accept one batch.
const REQUEST: Duration = Duration::from_secs(10);
/// How long the end of a run waits for batches that have not been sent yet.
const LAST: Duration = Duration::from_secs(15);
/// The pauses before each retry of a batch that the collector could not accept.
const PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(3)];

/// The destination of traces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A file to which lines are appended.
    File(PathBuf),
    /// The URL that traces are posted to.
    Url(String),
}

impl Destination {
    /// Parses a destination. `http://…` and `https://…` are collectors; a URL without a path gets the default path,
    /// `/v1/traces`. Anything without a scheme is a file.
    ///
    /// # Errors
    /// The text is not a valid destination.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text {
                "" => Err("a file, or the URL of a collector, is missing".to_owned()),
                "-" => Err("the report is printed to standard output: name a file".to_owned()),
                path => Ok(Self::File(path.into())),
            };
        };
        if !matches!(scheme, "http" | "https") {
            return Err(format!("traces are sent over HTTP: `http://…`, not `{scheme}://…`"));
        }
        let url = reqwest::Url::parse(text).map_err(|error| error.to_string())?;
        match url.path() {
            "/" if !rest.contains(['?', '#']) => Ok(Self::Url(format!("{}/v1/traces", text.trim_end_matches('/')))),
            _ => Ok(Self::Url(text.to_owned())),
        }
    }
}

/// Converts events to traces and exports them.
pub struct Exporter {
    traces: Traces,
    sink: Sink,
}

enum Sink {
    File { path: PathBuf, file: Box<dyn Write + Send>, fault: Option<io::Error> },
    Collector { batches: UnboundedSender<TracesData>, work: JoinHandle<Lost> },
}

/// The batches that a collector did not accept.
#[derive(Default)]
struct Lost {
    batches: usize,
    of: usize,
    /// The most recent reason.
    why: String,
}

impl Exporter {
    /// Opens the destination.
    ///
    /// # Errors
    /// The file cannot be written, or an environment variable cannot be parsed.
    pub fn open(destination: &Destination, plan: Arc<EvalPlan>, host: &Arc<dyn Host>) -> Result<Self, String> {
        let env = |name: &str| host.env(name);
        let traces = Traces::new(plan, Surroundings::read(&env)?);
        let sink = match destination {
            Destination::File(path) => {
                let file =
                    disk::add_to(path).map_err(|error| format!("`{}` cannot be written: {error}", path.display()))?;
                Sink::File { path: path.clone(), file, fault: None }
            }
            Destination::Url(url) => {
                let mut headers = vec![("content-type".to_owned(), "application/x-protobuf".to_owned())];
                for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
                    let own = env(name).map(|list| pairs(name, &list)).transpose()?.unwrap_or_default();
                    headers.retain(|(there, _)| !own.iter().any(|(key, _)| key.eq_ignore_ascii_case(there)));
                    headers.extend(own);
                }
                let (batches, queue) = unbounded_channel();
                let work = tokio::spawn(send(Arc::clone(host), url.clone(), headers, queue));
                Sink::Collector { batches, work }
            }
        };
        Ok(Self { traces, sink })
    }

    /// Takes the next event.
    pub fn take(&mut self, event: &Event) {
        let Some(data) = self.traces.take(event) else { return };
        match &mut self.sink {
            Sink::File { file, fault, .. } if fault.is_none() => {
                let line = serde_json::to_string(&data).map_err(io::Error::other);
                // Written in one call, so that lines of another process come before or after it.
                *fault = line.and_then(|line| file.write_all((line + "\n").as_bytes())).err();
            }
            Sink::File { .. } => {}
            Sink::Collector { batches, .. } => drop(batches.send(data)),
        }
    }

    /// Waits until everything is exported. Returns a message about what was not, if anything.
    pub async fn close(self) -> Option<String> {
        match self.sink {
            Sink::File { path, fault, .. } => {
                let fault = fault?;
                Some(format!("traces are missing in `{}`, which cannot be written: {fault}", path.display()))
            }
            Sink::Collector { batches, work } => {
                drop(batches);
                match tokio::time::timeout(LAST, work).await {
                    Ok(Ok(Lost { batches: 0, .. })) => None,
                    Ok(Ok(Lost { batches, of, why })) => {
                        Some(format!("{batches} of {of} batches of traces were not taken: {why}"))
                    }
                    Ok(Err(error)) => Some(format!("traces were not sent: {error}")),
                    Err(_) => Some(format!("the collector did not take all traces within {} s", LAST.as_secs())),
                }
            }
        }
    }
}

async fn send(
    host: Arc<dyn Host>,
    url: String,
    headers: Vec<(String, String)>,
    mut queue: UnboundedReceiver<TracesData>,
) -> Lost {
    let mut lost = Lost::default();
    while let Some(data) = queue.recv().await {
        lost.of += 1;
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: url.clone(),
            headers: headers.clone(),
            body: Some(ExportTraceServiceRequest { resource_spans: data.resource_spans }.encode_to_vec()),
            timeout: REQUEST,
            max_body: 64 << 10,
        };
        if let Err(why) = post(host.as_ref(), &request).await {
            lost.batches += 1;
            lost.why = secrets::veil(&why).into_owned();
        }
    }
    lost
}

/// Sends one batch, and retries if the collector asks for it or cannot be reached.
async fn post(host: &dyn Host, request: &HttpRequest) -> Result<(), String> {
    let mut pauses = PAUSES.iter();
    loop {
        let (why, again) = match host.http(request.clone()).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                let response = ExportTraceServiceResponse::decode(answer.body.as_slice()).unwrap_or_default();
                let partly = response.partial_success.filter(|partly| partly.rejected_spans > 0);
                return partly.map_or(Ok(()), |partly| {
                    Err(format!("the collector rejected {} spans: {}", partly.rejected_spans, partly.error_message))
                });
            }
            // The status codes that OTLP/HTTP defines as retryable.
            Ok(answer) => {
                let again = matches!(answer.status, 429 | 502..=504);
                (format!("`{}` answered with the status {}", request.url, answer.status), again)
            }
            Err(fault) => (fault.to_string(), true),
        };
        match pauses.next().filter(|_| again) {
            Some(pause) => host.sleep(*pause).await,
            None => return Err(why),
        }
    }
}

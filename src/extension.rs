//! Extensions: programs with operations that tasks call as steps.
//!
//! A program speaks one of two protocols: JSON-RPC on its standard input and output for as long as a run of a task lasts
//! (§7.4 of the upstream behaviour), or one process an operation (`portable-format.md`). What it can do, its manifest says.

mod one_shot;
mod program;
mod rpc;
mod session;

pub use program::{Program, locate};
pub use session::Session;

use std::{collections::HashMap, sync::Arc, time::Duration};

use indexmap::IndexMap;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::{
    host::{Host, Leftover},
    plan::{Plan, PlanPhase, PlannedExtension},
};

/// A call of an operation.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub operation: &'a str,
    pub args: Map<String, Value>,
    pub phase: PlanPhase,
    /// What may be left of the step's time.
    pub timeout: Duration,
    /// The prompt and the agent's last message, once there is one.
    pub agent: Option<(String, String)>,
}

/// What an operation said.
#[derive(Debug, Default)]
pub struct Answer {
    pub success: bool,
    pub message: String,
    pub error: String,
    pub outputs: Map<String, Value>,
    /// What it logged meanwhile, and what it wrote to standard error.
    pub log: String,
    /// What a process of one operation left in the background.
    pub leftover: Option<Leftover>,
}

/// Why an operation gave no answer.
#[derive(Debug, Default)]
pub struct Fault {
    pub why: String,
    pub log: String,
}

impl Fault {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), log: String::new() }
    }
}

/// Where an extension runs: the task's folder and variables.
#[derive(Clone, Debug)]
pub struct Place {
    pub dir: std::path::PathBuf,
    pub env: Vec<(String, String)>,
}

impl Place {
    /// Of a task whose variables have these values.
    pub fn of(plan: &Plan, env: &[(String, String)]) -> Self {
        Self { dir: program::absolute(plan.task.folder()), env: env.to_vec() }
    }
}

/// The extensions of one run of a task: started when first called, ended with the task.
pub struct Extensions<'a> {
    host: &'a dyn Host,
    planned: &'a IndexMap<String, PlannedExtension>,
    place: Place,
    running: Mutex<HashMap<String, Arc<Mutex<Slot>>>>,
}

#[derive(Default)]
enum Slot {
    #[default]
    Idle,
    Running(Arc<Session>),
    /// It did not start, and would not the next time.
    Failed(String),
}

impl<'a> Extensions<'a> {
    /// Those that a task's plan names; none is started.
    pub fn new(host: &'a dyn Host, planned: &'a IndexMap<String, PlannedExtension>, place: Place) -> Self {
        Self { host, planned, place, running: Mutex::default() }
    }

    /// Calls an operation. If the future is dropped, the call is given up: see [`Self::give_up`].
    ///
    /// # Errors
    /// The extension cannot be started, is lost, or breaks its protocol.
    pub async fn call(&self, name: &str, call: Call<'_>) -> Result<Answer, Fault> {
        let session = self.session(name).await.map_err(Fault::new)?;
        session.call(self.host, &self.place, call).await
    }

    /// Ends an extension in which nothing runs but what was given up; the next call starts it anew.
    pub async fn give_up(&self, name: &str) {
        let slot = self.slot(name).await;
        let mut slot = slot.lock().await;
        if let Slot::Running(session) = &*slot
            && session.is_stale()
        {
            session.end().await;
            *slot = Slot::Idle;
        }
    }

    /// Ends them all, kindly.
    pub async fn close(&self) {
        for (_, slot) in std::mem::take(&mut *self.running.lock().await) {
            if let Slot::Running(session) = std::mem::take(&mut *slot.lock().await) {
                session.close().await;
            }
        }
    }

    async fn slot(&self, name: &str) -> Arc<Mutex<Slot>> {
        Arc::clone(self.running.lock().await.entry(name.to_owned()).or_default())
    }

    async fn session(&self, name: &str) -> Result<Arc<Session>, String> {
        let Some(planned) = self.planned.get(name) else {
            return Err(format!("the plan names no extension `{name}`"));
        };
        let slot = self.slot(name).await;
        let mut slot = slot.lock().await;
        match &*slot {
            Slot::Running(session) if !session.is_stale() => return Ok(Arc::clone(session)),
            Slot::Running(session) => session.end().await,
            Slot::Failed(why) => return Err(why.clone()),
            Slot::Idle => {}
        }
        let started = async {
            let program = locate(self.host, planned)?;
            Session::start(self.host, program, &self.place).await
        };
        match started.await {
            Ok(session) => {
                let session = Arc::new(session);
                *slot = Slot::Running(Arc::clone(&session));
                Ok(session)
            }
            Err(why) => {
                *slot = Slot::Failed(why.clone());
                Err(why)
            }
        }
    }
}

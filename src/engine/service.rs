//! The calls to a Temporal server: those of workers and those of clients.
//!
//! Activities are polled here and not by the SDK's worker, which batches heartbeats and sends them later: a worker must
//! know that its pending cleanups have reached the server.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, NamespacedClient, TlsOptions, Url,
    grpc::WorkflowService,
    tonic::{Code, IntoRequest, Status},
};
use temporalio_common::protos::temporal::api::{
    common::v1::{Payload, Payloads, WorkflowExecution, WorkflowType},
    enums::v1::{
        HistoryEventFilterType, TaskQueueType, WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
    },
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    history::v1::HistoryEvent,
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        DescribeTaskQueueRequest, DescribeWorkflowExecutionRequest, GetWorkflowExecutionHistoryRequest,
        PollActivityTaskQueueRequest, PollActivityTaskQueueResponse, RecordActivityTaskHeartbeatRequest,
        RequestCancelWorkflowExecutionRequest, RespondActivityTaskCanceledRequest, RespondActivityTaskCompletedRequest,
        RespondActivityTaskFailedRequest, StartWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
    },
};

use super::{wire::Order, workflow::RunPack};

/// Timeout for connecting to a server.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server, and a namespace in it.
#[derive(Clone)]
pub struct Service {
    client: Client,
    identity: String,
}

/// The server's answer to a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    GoOn,
    /// The workflow has canceled it.
    Cancel,
    /// The server no longer waits for it.
    Unknown,
}

/// The state of a workflow.
#[derive(Clone, Debug)]
pub struct Found {
    /// The id of the first run, if the workflow was continued.
    pub first: String,
    pub runs: bool,
}

/// A page of the history of a workflow.
#[derive(Debug)]
pub struct Page {
    pub events: Vec<HistoryEvent>,
    /// The token of the next page.
    pub next: Vec<u8>,
}

impl Service {
    /// Connects to the server at this address: `HOST:PORT`, or a URL. For `https`, it uses TLS with the certificates
    /// that this machine trusts.
    ///
    /// # Errors
    /// Why the connection failed, for people.
    pub async fn connect(address: &str, namespace: &str, identity: &str) -> Result<Self, String> {
        let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let url = Url::parse(&url).map_err(|error| format!("`{address}` is not an address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{address}` is not an address: write HOST:PORT, or a URL with http or https"));
        }
        let tls = (url.scheme() == "https").then(TlsOptions::default);
        let mut options =
            ConnectionOptions::new(url).identity(identity).connect_timeout(PATIENCE).maybe_tls_options(tls).build();
        options.api_key = None;
        let connecting = tokio::time::timeout(PATIENCE, Connection::connect(options)).await;
        let connection = match connecting {
            Ok(connection) => connection.map_err(|error| brief(&error))?,
            Err(_) => return Err(format!("it did not respond within {} s", PATIENCE.as_secs())),
        };
        let client =
            Client::new(connection, ClientOptions::new(namespace).build()).map_err(|error| error.to_string())?;
        Ok(Self { client, identity: identity.to_owned() })
    }

    /// The client for the SDK.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn namespace(&self) -> String {
        self.client.namespace()
    }

    /// Starts the workflow of a pack, or finds the running one. Returns the id of its first run.
    ///
    /// # Errors
    /// The server refuses the request.
    pub async fn start(&self, id: &str, queue: &str, order: &Order) -> Result<String, String> {
        let request = StartWorkflowExecutionRequest {
            namespace: self.namespace(),
            workflow_id: id.to_owned(),
            workflow_type: Some(WorkflowType { name: RunPack::NAME.to_owned() }),
            task_queue: Some(of_name(queue)),
            input: Some(payloads(order)?),
            identity: self.identity.clone(),
            request_id: crate::random::word(),
            workflow_id_reuse_policy: WorkflowIdReusePolicy::AllowDuplicate.into(),
            workflow_id_conflict_policy: WorkflowIdConflictPolicy::UseExisting.into(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        let answer = WorkflowService::start_workflow_execution(&mut client, request.into_request()).await;
        Ok(answer.map_err(|status| brief(&status))?.into_inner().run_id)
    }

    /// The latest workflow with this id.
    ///
    /// # Errors
    /// The request failed.
    pub async fn find(&self, id: &str, run: &str) -> Result<Option<Found>, String> {
        let request = DescribeWorkflowExecutionRequest {
            namespace: self.namespace(),
            execution: Some(WorkflowExecution { workflow_id: id.to_owned(), run_id: run.to_owned() }),
        };
        let mut client = self.client.clone();
        match WorkflowService::describe_workflow_execution(&mut client, request.into_request()).await {
            Ok(answer) => Ok(answer.into_inner().workflow_execution_info.map(|info| Found {
                runs: info.status == i32::from(WorkflowExecutionStatus::Running),
                first: info.first_run_id,
            })),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(brief(&status)),
        }
    }

    /// The history of a workflow, starting at a token; waits for the next event.
    ///
    /// # Errors
    /// The request failed.
    pub async fn history(&self, id: &str, run: &str, from: Vec<u8>) -> Result<Page, Status> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: self.namespace(),
            execution: Some(WorkflowExecution { workflow_id: id.to_owned(), run_id: run.to_owned() }),
            next_page_token: from,
            wait_new_event: true,
            ..Default::default()
        };
        let mut client = self.client.clone();
        let answer = WorkflowService::get_workflow_execution_history(&mut client, request.into_request()).await?;
        let answer = answer.into_inner();
        Ok(Page {
            events: answer.history.map(|history| history.events).unwrap_or_default(),
            next: answer.next_page_token,
        })
    }

    /// Waits for a workflow to end, for as long as the server allows, and returns whether it ended.
    ///
    /// # Errors
    /// The request failed.
    pub async fn has_ended(&self, id: &str, run: &str) -> Result<bool, Status> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: self.namespace(),
            execution: Some(WorkflowExecution { workflow_id: id.to_owned(), run_id: run.to_owned() }),
            wait_new_event: true,
            history_event_filter_type: HistoryEventFilterType::CloseEvent.into(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        let answer = WorkflowService::get_workflow_execution_history(&mut client, request.into_request()).await?;
        Ok(answer.into_inner().history.is_some_and(|history| !history.events.is_empty()))
    }

    /// Requests the cancellation of a workflow.
    ///
    /// # Errors
    /// The server refuses the request.
    pub async fn cancel(&self, id: &str) -> Result<(), String> {
        let request = RequestCancelWorkflowExecutionRequest {
            namespace: self.namespace(),
            workflow_execution: Some(WorkflowExecution { workflow_id: id.to_owned(), run_id: String::new() }),
            identity: self.identity.clone(),
            request_id: crate::random::word(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        let answer = WorkflowService::request_cancel_workflow_execution(&mut client, request.into_request()).await;
        answer.map(drop).map_err(|status| brief(&status))
    }

    /// Terminates a workflow, which is not notified.
    ///
    /// # Errors
    /// The server refuses the request.
    pub async fn terminate(&self, id: &str, why: &str) -> Result<(), String> {
        let request = TerminateWorkflowExecutionRequest {
            namespace: self.namespace(),
            workflow_execution: Some(WorkflowExecution { workflow_id: id.to_owned(), run_id: String::new() }),
            identity: self.identity.clone(),
            reason: why.to_owned(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        let answer = WorkflowService::terminate_workflow_execution(&mut client, request.into_request()).await;
        answer.map(drop).map_err(|status| brief(&status))
    }

    /// The number of workers that poll this queue for units.
    ///
    /// # Errors
    /// The request failed.
    pub async fn workers(&self, queue: &str) -> Result<usize, String> {
        let request = DescribeTaskQueueRequest {
            namespace: self.namespace(),
            task_queue: Some(of_name(queue)),
            task_queue_type: TaskQueueType::Activity.into(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        let answer = WorkflowService::describe_task_queue(&mut client, request.into_request()).await;
        Ok(answer.map_err(|status| brief(&status))?.into_inner().pollers.len())
    }

    /// The next activity in this queue; `None` if there was none for a while.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn poll(&self, queue: &str) -> Result<Option<PollActivityTaskQueueResponse>, Status> {
        let request = PollActivityTaskQueueRequest {
            namespace: self.namespace(),
            task_queue: Some(of_name(queue)),
            identity: self.identity.clone(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        match WorkflowService::poll_activity_task_queue(&mut client, request.into_request()).await {
            Ok(task) => Ok(Some(task.into_inner()).filter(|task| !task.task_token.is_empty())),
            Err(status) if matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled) => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Reports that an activity is alive, and what it has left pending so far. The report has arrived when this
    /// returns.
    ///
    /// # Errors
    /// The report has not arrived.
    pub async fn heartbeat(&self, token: &[u8], details: &impl Serialize) -> Result<Heard, Status> {
        let request = RecordActivityTaskHeartbeatRequest {
            task_token: token.to_vec(),
            details: Some(payloads(details).map_err(Status::internal)?),
            identity: self.identity.clone(),
            namespace: self.namespace(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        match WorkflowService::record_activity_task_heartbeat(&mut client, request.into_request()).await {
            Ok(answer) if answer.get_ref().cancel_requested => Ok(Heard::Cancel),
            Ok(_) => Ok(Heard::GoOn),
            Err(status) if status.code() == Code::NotFound => Ok(Heard::Unknown),
            Err(status) => Err(status),
        }
    }

    /// Reports the result of an activity.
    ///
    /// # Errors
    /// The report has not arrived, or the server no longer waits for it.
    pub async fn completed(&self, token: &[u8], result: &impl Serialize) -> Result<(), Status> {
        let request = RespondActivityTaskCompletedRequest {
            task_token: token.to_vec(),
            result: Some(payloads(result).map_err(Status::internal)?),
            identity: self.identity.clone(),
            namespace: self.namespace(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        WorkflowService::respond_activity_task_completed(&mut client, request.into_request()).await.map(drop)
    }

    /// Reports that an activity failed.
    ///
    /// # Errors
    /// The report has not arrived, or the server no longer waits for it.
    pub async fn failed(&self, token: &[u8], kind: &str, why: &str) -> Result<(), Status> {
        let failure = Failure {
            message: why.to_owned(),
            source: "gevals".to_owned(),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
                r#type: kind.to_owned(),
                ..Default::default()
            })),
            ..Default::default()
        };
        let request = RespondActivityTaskFailedRequest {
            task_token: token.to_vec(),
            failure: Some(failure),
            identity: self.identity.clone(),
            namespace: self.namespace(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        WorkflowService::respond_activity_task_failed(&mut client, request.into_request()).await.map(drop)
    }

    /// Reports that an activity was canceled as requested.
    ///
    /// # Errors
    /// The report has not arrived, or the server no longer waits for it.
    pub async fn cancelled(&self, token: &[u8]) -> Result<(), Status> {
        let request = RespondActivityTaskCanceledRequest {
            task_token: token.to_vec(),
            identity: self.identity.clone(),
            namespace: self.namespace(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        WorkflowService::respond_activity_task_canceled(&mut client, request.into_request()).await.map(drop)
    }
}

fn of_name(queue: &str) -> TaskQueue {
    TaskQueue { name: queue.to_owned(), ..Default::default() }
}

/// A value in the encoding of the SDK.
fn payloads(value: &impl Serialize) -> Result<Payloads, String> {
    let data = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
    Ok(Payloads { payloads: vec![Payload { metadata, data, ..Default::default() }] })
}

/// The value of the first payload.
pub fn value<T: DeserializeOwned>(payloads: Option<&Payloads>) -> Option<T> {
    serde_json::from_slice(&payloads?.payloads.first()?.data).ok()
}

/// The message of the innermost error.
fn brief(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

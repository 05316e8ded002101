//! `builtin.llm-agent`: a model that gevals calls directly, over its provider's own protocol, with the tools of the
//! servers.
//!
//! No system prompt, no memory: only prompt, calls, answer. The model is offered every tool, and calls to tools that
//! the MCP config does not permit are refused, as if a person had denied permission (§3.6 and §4.3 of the upstream
//! behaviour).

use std::{collections::HashSet, time::Duration};

use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatOptions, ChatRequest, ChatResponse, StopReason, Tool, ToolCall, ToolResponse},
    resolver::{AuthData, Endpoint},
    webc,
};
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::{AgentContext, AgentDone, AgentFault, Said, Spent, TRANSCRIPT, Usage};
use crate::{
    builtin::count,
    hir::{CallKind, ModelAgent, Provider},
    host::{Host, http::service_client},
    tokens,
    ty::{endpoint as url, unique},
};

/// Maximum number of model answers in one turn of the agent, to stop a model that calls tools forever.
const ROUNDS: usize = 50;
/// How often a request is sent if the endpoint is too busy.
const ATTEMPTS: u32 = 3;
const NO_ANSWER: &str = "the model's endpoint gave no answer of its protocol";
/// The longest wait that an endpoint may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub async fn run(cx: &AgentContext<'_>, agent: &ModelAgent) -> AgentDone {
    let mut talk = Talk::default();
    let result = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(AgentFault::Cancelled),
        () = cx.host.sleep(cx.timeout) => Err(AgentFault::TimedOut(cx.timeout)),
        done = answers(cx, agent, ChatRequest::from_user(cx.prompt), None, &mut talk) => done,
    };
    let usage = talk.spent();
    let transcript = talk.said.into_text();
    AgentDone { transcript, usage, cut: talk.cut, ..AgentDone::ended(result, talk.answer) }
}

/// The endpoint of the model and the variable of its key, for people, if everything needed is available.
pub fn endpoint(host: &dyn Host, agent: &ModelAgent) -> Result<String, String> {
    let Target { base, key, .. } = target(host, agent)?;
    // A password in the URL is not shown.
    let shown = url::without_user(&base);
    Ok(match key {
        Some((name, _)) => format!("{shown}, with the key in `{name}`"),
        None => format!("{shown}, without a key"),
    })
}

#[derive(Default)]
struct Talk {
    said: Said<TRANSCRIPT>,
    /// The text of the model's latest message that contains text.
    answer: String,
    usage: Option<Usage>,
    /// Estimated tokens of answers whose usage was not reported.
    unreported: u64,
    /// Why it stopped, if it was not done.
    cut: Option<String>,
    /// What it said and called, and the results, in order.
    turns: Vec<Value>,
}

impl Talk {
    /// Counts the usage of an answer to a request.
    fn count(&mut self, cx: &AgentContext<'_>, request: &ChatRequest, used: Option<Usage>, answer: &str) {
        match used {
            Some(used) => self.usage.get_or_insert_default().add(used),
            None => {
                let asked = serde_json::to_string(&request.messages).unwrap_or_default();
                self.unreported += tokens::count(&asked) + tokens::count(answer);
            }
        }
        self.spent().into_iter().for_each(|spent| (cx.used)(spent));
    }

    /// The usage so far; only a lower bound if some of it was estimated. `None` if nothing was reported.
    fn spent(&self) -> Option<Spent> {
        let usage = self.usage?;
        Some(match self.unreported {
            0 => Spent::Reported(usage),
            more => Spent::AtLeast(usage.total_tokens + more),
        })
    }
}

/// A conversation that starts with more than a prompt.
pub struct Conversation<'a> {
    /// The messages, with their speakers.
    pub messages: &'a [(Speaker, String)],
    /// Maximum number of answers of the model.
    pub most: usize,
    /// Whether to make the tool calls that it requests. If not, its first answer is the last.
    pub calls_tools: bool,
}

/// The author of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    User,
    Model,
}

/// The model's part of a conversation.
#[derive(Debug)]
pub struct Conversed {
    pub result: Result<(), AgentFault>,
    /// The text of its last message that contains text.
    pub text: String,
    /// In order: `{"says"}`, `{"calls", "arguments"}`, `{"result"}`.
    pub turns: Vec<Value>,
    /// Why it stopped, if it was not done.
    pub cut: Option<String>,
    pub usage: Option<Usage>,
}

impl Conversed {
    /// The tools that it called or requested, by the names their server uses, with the arguments.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.turns.iter().filter_map(|turn| Some((turn.get("calls")?.as_str()?, turn.get("arguments")?)))
    }
}

/// Lets a model continue a conversation.
pub async fn converse(cx: &AgentContext<'_>, agent: &ModelAgent, conversation: &Conversation<'_>) -> Conversed {
    let mut talk = Talk::default();
    let messages = conversation.messages.iter().map(|(who, text)| match who {
        Speaker::User => ChatMessage::user(text.clone()),
        Speaker::Model => ChatMessage::assistant(text.clone()),
    });
    let request = ChatRequest::from_messages(messages.collect());
    let result = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(AgentFault::Cancelled),
        () = cx.host.sleep(cx.timeout) => Err(AgentFault::TimedOut(cx.timeout)),
        done = answers(cx, agent, request, Some(conversation), &mut talk) => done,
    };
    Conversed { result, text: talk.answer, turns: talk.turns, cut: talk.cut, usage: talk.usage }
}

/// Gets the model's answers to a request until it is done. The turns of a conversation are kept.
async fn answers(
    cx: &AgentContext<'_>,
    agent: &ModelAgent,
    mut request: ChatRequest,
    conversation: Option<&Conversation<'_>>,
    talk: &mut Talk,
) -> Result<(), AgentFault> {
    let target = target(cx.host, agent).map_err(AgentFault::NotStarted)?;
    let client = service_client(&target.base).map_err(|e| AgentFault::NotStarted(e.to_string()))?;
    let client = Client::builder().with_reqwest(client).build().map_err(|e| AgentFault::NotStarted(e.to_string()))?;
    let target = ServiceTarget {
        endpoint: Endpoint::from_owned(target.base + "/"),
        auth: AuthData::from_single(target.key.map_or_else(|| "none".to_owned(), |(_, key)| key)),
        model: ModelIden::new(target.adapter, agent.model.clone()),
    };
    let mut tools = offered(cx).await.map_err(AgentFault::NotStarted)?;
    if !tools.is_empty() {
        request = request.with_tools(tools.values().map(|offer| offer.tool.clone()));
    }
    let most = conversation.map_or(ROUNDS, |conversation| conversation.most);
    for _ in 0..most {
        let answer = ask(cx, &client, &target, &request, talk).await?;
        talk.count(cx, &request, used(&answer), &answer.texts().concat());
        if answer.content.is_empty() && answer.reasoning_content.is_none() && answer.stop_reason.is_none() {
            return Err(AgentFault::Failed(format!("{NO_ANSWER}: there is nothing in it")));
        }
        let text = answer.texts().concat();
        if !text.is_empty() {
            talk.said.line(&text);
            if conversation.is_some() {
                talk.turns.push(json!({ "says": text }));
            }
            talk.answer = text;
        }
        let cut = match &answer.stop_reason {
            Some(StopReason::MaxTokens(_)) => Some("the model's answer reached its maximum length"),
            Some(StopReason::ContentFilter(_)) => Some("the model's provider withheld the rest of its answer"),
            _ => None,
        };
        let calls: Vec<ToolCall> = answer.tool_calls().into_iter().cloned().collect();
        let Some(message) = answer.into_assistant_message_for_tool_use() else {
            if let Some(why) = cut {
                talk.said.line(&format!("… {why}"));
                talk.cut = Some(why.to_owned());
            }
            return Ok(());
        };
        if conversation.is_some_and(|conversation| !conversation.calls_tools) {
            talk.turns.extend(calls.iter().map(|call| turn(&tools, call)));
            talk.cut = cut.map(str::to_owned);
            return Ok(());
        }
        // This answer may have exceeded a limit.
        if cx.cancel.is_cancelled() {
            return Err(AgentFault::Cancelled);
        }
        request = request.append_message(message);
        let mut responses = Vec::new();
        for call in &calls {
            let result = carry_out(cx, &tools, call, talk).await.map_err(AgentFault::Failed)?;
            if conversation.is_some() {
                talk.turns.push(turn(&tools, call));
                talk.turns.push(json!({ "result": result }));
            }
            responses.push(ToolResponse::from_tool_call(call, result));
        }
        request = request.append_message(ChatMessage::from(responses));
        if cx.calls.tools_changed() {
            tools = offered(cx).await.map_err(AgentFault::Failed)?;
            request.tools = (!tools.is_empty()).then(|| tools.values().map(|offer| offer.tool.clone()).collect());
        }
    }
    let why = format!("the model still called tools after {}", count(most, "answer", "answers"));
    if conversation.is_some() {
        talk.cut = Some(why);
        return Ok(());
    }
    Err(AgentFault::Failed(why))
}

/// A call in the form that is kept, with the server's name for the tool.
fn turn(tools: &IndexMap<String, Offer>, call: &ToolCall) -> Value {
    let name = tools.get(&call.fn_name).map_or(&call.fn_name, |offer| &offer.name);
    json!({ "calls": name, "arguments": call.fn_arguments })
}

/// Gets one answer; repeats the request if the endpoint is busy.
async fn ask(
    cx: &AgentContext<'_>,
    client: &Client,
    target: &ServiceTarget,
    request: &ChatRequest,
    talk: &mut Talk,
) -> Result<ChatResponse, AgentFault> {
    // The body is kept to distinguish a malformed call from a malformed answer.
    let options = ChatOptions::default().with_capture_raw_body(true);
    let mut attempt = 1;
    loop {
        let error = match client.exec_chat(target.clone(), request.clone(), Some(&options)).await {
            // The client would read the last of two keys, and another reader the first.
            Ok(answer) => {
                let Some((body, why)) =
                    answer.captured_raw_body.as_ref().and_then(|body| Some((body, repeated_key(body)?)))
                else {
                    return Ok(answer);
                };
                talk.count(cx, request, reported(body), &body.to_string());
                talk.said.line(&format!("… {why}"));
                return Err(AgentFault::Malformed(why));
            }
            Err(error) => error,
        };
        if let genai::Error::ChatResponseGeneration { response_body, .. } = &error
            && let Some(why) = malformed_call(response_body)
        {
            talk.count(cx, request, reported(response_body), &response_body.to_string());
            talk.said.line(&format!("… {why}"));
            return Err(AgentFault::Malformed(why));
        }
        let busy = error.status().is_some_and(|status| matches!(status.as_u16(), 429 | 500 | 502..=504 | 529));
        let why = reason(&error);
        if !busy || attempt == ATTEMPTS {
            let tries = if attempt > 1 { format!(", {attempt} times") } else { String::new() };
            return Err(AgentFault::Failed(format!("{why}{tries}")));
        }
        let wished = error.headers().and_then(|headers| headers.get("retry-after")?.to_str().ok()?.parse().ok());
        let wait = wished.map_or(Duration::from_millis(250) * 2_u32.pow(attempt), Duration::from_secs);
        talk.said.line(&format!("… {why}; asked again"));
        cx.host.sleep(wait.min(LONGEST_WAIT)).await;
        attempt += 1;
    }
}

/// Finds the call in an answer of OpenAI's protocol that the client cannot parse: in this protocol, a model writes the
/// arguments as text.
fn malformed_call(answer: &Value) -> Option<String> {
    let calls = answer.pointer("/choices/0/message/tool_calls")?.as_array()?;
    calls.iter().find_map(|call| {
        let Some(name) = call.pointer("/function/name").and_then(Value::as_str) else {
            return Some("it does not name what it calls".to_owned());
        };
        let fault = match call.pointer("/function/arguments") {
            Some(Value::String(text)) => serde_json::from_str::<Value>(text).err()?.to_string(),
            Some(Value::Object(_)) => return None,
            _ => "they are not an object".to_owned(),
        };
        Some(format!("the arguments of `{name}`: {fault}"))
    })
}

/// Finds the call in an answer of OpenAI's protocol whose arguments have a key twice.
fn repeated_key(answer: &Value) -> Option<String> {
    let calls = answer.pointer("/choices/0/message/tool_calls")?.as_array()?;
    calls.iter().find_map(|call| {
        let text = call.pointer("/function/arguments")?.as_str()?;
        serde_json::from_str::<Value>(text).ok()?;
        let (name, fault) = (call.pointer("/function/name")?.as_str()?, unique::check(text).err()?);
        Some(format!("the arguments of `{name}`: {fault}"))
    })
}

/// Makes a tool call that the model requests; returns a text for the model. A call that is not permitted does not reach
/// any server.
async fn carry_out(
    cx: &AgentContext<'_>,
    tools: &IndexMap<String, Offer>,
    call: &ToolCall,
    talk: &mut Talk,
) -> Result<String, String> {
    let refused = |talk: &mut Talk, why: String| {
        talk.said.line(&format!("tool {}: {why}", call.fn_name));
        Ok(json!({ "content": [{ "type": "text", "text": why }], "isError": true }).to_string())
    };
    let args = match &call.fn_arguments {
        Value::Null => json!({}),
        args @ Value::Object(_) => args.clone(),
        other => return refused(talk, format!("the arguments must be an object, and they are `{other}`")),
    };
    let Some(offer) = tools.get(&call.fn_name) else {
        // If the target is clear, let the server report the error: then the call is recorded.
        let addressed =
            cx.servers.iter().find_map(|s| Some((s, call.fn_name.strip_prefix(&s.name)?.strip_prefix("__")?)));
        let (server, name) = match (cx.servers, addressed) {
            ([server], _) if server.enable_all_tools => (server, call.fn_name.as_str()),
            (_, Some((server, name))) if server.enable_all_tools => (server, name),
            _ => return refused(talk, "there is no such tool".to_owned()),
        };
        talk.said.line(&format!("tool {name} on {}: {args}", server.name));
        let result = cx.calls.call(&server.name, CallKind::Tool, name, args).await?.to_string();
        talk.said.line(&format!("→ {result}"));
        return Ok(result);
    };
    if !offer.allowed {
        return refused(talk, "permission denied".to_owned());
    }
    talk.said.line(&format!("tool {} on {}: {args}", offer.name, offer.server));
    let result = cx.calls.call(&offer.server, CallKind::Tool, &offer.name, args).await?.to_string();
    talk.said.line(&format!("→ {result}"));
    Ok(result)
}

/// A tool as it is offered to the model.
struct Offer {
    tool: Tool,
    server: String,
    name: String,
    allowed: bool,
}

/// The tools of all servers, under unique names that every provider accepts.
async fn offered(cx: &AgentContext<'_>) -> Result<IndexMap<String, Offer>, String> {
    let mut all = Vec::new();
    for server in cx.servers {
        for tool in cx.calls.tools(&server.name).await? {
            if let Some(name) = tool.get("name").and_then(Value::as_str) {
                all.push((server, name.to_owned(), tool));
            }
        }
    }
    let shared = |name: &str| all.iter().filter(|(_, other, _)| other == name).count() > 1;
    let mut offers = IndexMap::new();
    let mut taken: HashSet<String> = HashSet::new();
    for (server, name, tool) in &all {
        let wanted = if shared(name) { format!("{}__{name}", server.name) } else { name.clone() };
        let offered = unique(&wanted, &mut taken);
        let schema = tool.get("inputSchema").filter(|s| s.is_object()).cloned();
        let mut told = Tool::new(offered.clone())
            .with_schema(schema.unwrap_or_else(|| json!({ "type": "object", "properties": {} })));
        if let Some(description) = tool.get("description").and_then(Value::as_str) {
            told = told.with_description(description);
        }
        let allowed = server.enable_all_tools || server.allowed.contains(name);
        offers.insert(offered, Offer { tool: told, server: server.name.clone(), name: name.clone(), allowed });
    }
    Ok(offers)
}

/// Makes a unique name of at most 64 letters, digits, `_` and `-` that starts with a letter or `_`.
fn unique(wanted: &str, taken: &mut HashSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let mut name: String = wanted.chars().map(plain).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name.truncate(64);
    let mut free = name.clone();
    for n in 2.. {
        if taken.insert(free.clone()) {
            break;
        }
        let end = format!("_{n}");
        free = format!("{}{end}", &name[..name.len().min(64 - end.len())]);
    }
    free
}

/// The endpoint of a model, and the key for it.
struct Target {
    adapter: AdapterKind,
    /// Without a trailing slash.
    base: String,
    /// The name of the variable and its value. Another server with OpenAI's protocol may need no key.
    key: Option<(String, String)>,
}

/// The provider's own variables take precedence over the agent file. Endpoint and key come from the same source: if the
/// file names an endpoint, that endpoint gets the key that the file names and no other, and an endpoint from the
/// environment does not get that key.
fn target(host: &dyn Host, agent: &ModelAgent) -> Result<Target, String> {
    let held = |name: &str| host.env(name).filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value));
    let first = |names: &[&str]| names.iter().find_map(|name| held(name));
    let (adapter, keys, urls, usual, version): (_, &[&str], &[&str], _, _) = match agent.provider {
        Provider::OpenAi => {
            (AdapterKind::OpenAI, &["OPENAI_API_KEY"], &["OPENAI_BASE_URL"], "https://api.openai.com/v1", "")
        }
        Provider::Anthropic => (
            AdapterKind::Anthropic,
            &["ANTHROPIC_API_KEY"],
            &["ANTHROPIC_BASE_URL"],
            "https://api.anthropic.com",
            "/v1",
        ),
        Provider::Gemini => (
            AdapterKind::Gemini,
            &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            &["GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"],
            "https://generativelanguage.googleapis.com",
            "/v1beta",
        ),
    };
    let vertex = ["ANTHROPIC_USE_VERTEX", "GEMINI_USE_VERTEX", "GOOGLE_USE_VERTEX"];
    if let Some(variable) = vertex.iter().find(|name| {
        let whose = if name.starts_with("ANTHROPIC") { Provider::Anthropic } else { Provider::Gemini };
        whose == agent.provider && held(name).is_some_and(|(_, value)| value == "1")
    }) {
        return Err(format!("`{variable}` is set, but Vertex AI is not supported"));
    }
    // Older names of OpenAI's variables.
    let old = |name: &str| (agent.provider == Provider::OpenAi).then(|| held(name)).flatten();
    let named = agent.api_key.as_ref().map(|name| name.value.as_str());
    let keyless = agent.provider == Provider::OpenAi;
    let environments = if agent.meant { None } else { first(urls) };
    let (base, key, wanted) = match (environments, &agent.base_url) {
        (None, Some(url)) => {
            let key = named.and_then(held);
            if named.is_none() && !keyless {
                let why = "the agent file specifies an endpoint but no key for it: set `apiKey` to the name of the variable that contains it";
                return Err(why.to_owned());
            }
            (Some(("baseUrl".to_owned(), url.value.clone())), key, named.into_iter().collect())
        }
        (url, elsewhere) => {
            let named = named.filter(|_| elsewhere.is_none());
            let url = url.or_else(|| old("MODEL_BASE_URL"));
            let key = first(keys).or_else(|| named.and_then(held)).or_else(|| old("MODEL_KEY"));
            // Without a configured endpoint, it is the provider's, which requires a key.
            let must = if url.is_some() && keyless && named.is_none() { None } else { Some(keys[0]) };
            (url, key, must.into_iter().chain(named).collect::<Vec<_>>())
        }
    };
    match (&key, wanted.as_slice()) {
        (Some(_), _) | (None, []) => {}
        (None, [one]) => return Err(format!("`{one}`, which must contain the key of the model, is not set")),
        (None, [one, other, ..]) => {
            return Err(format!("neither `{one}` nor `{other}` is set; one of them must contain the key of the model"));
        }
    }
    let base = match base {
        None => usual.to_owned(),
        // Anyone who can set the variables of this process may also put a user name in them.
        Some((name, url)) => match url::fault(&url::without_user(url.trim())) {
            Some(why) => return Err(format!("`{name}` is not the URL of an endpoint: {why}")),
            None => url.trim().to_owned(),
        },
    };
    let mut base = base.trim_end_matches('/').to_owned();
    // The provider's own clients accept this URL without the version.
    if !version.is_empty() && !base.rsplit('/').next().is_some_and(|last| last.starts_with("v1")) {
        base += version;
    }
    Ok(Target { adapter, base, key })
}

/// The token counts in an answer of OpenAI's protocol that the client cannot parse.
fn reported(answer: &Value) -> Option<Usage> {
    let count = |path: &str| answer.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let (input, output) = (count("/usage/prompt_tokens"), count("/usage/completion_tokens"));
    let used = Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: count("/usage/total_tokens").max(input + output),
        thought_tokens: count("/usage/completion_tokens_details/reasoning_tokens"),
        cached_read_tokens: count("/usage/prompt_tokens_details/cached_tokens"),
        ..Usage::default()
    };
    (used.total_tokens > 0).then_some(used)
}

fn used(answer: &ChatResponse) -> Option<Usage> {
    let count = |tokens: Option<i32>| tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
    let usage = &answer.usage;
    let (input, output) = (count(usage.prompt_tokens), count(usage.completion_tokens));
    let prompt = usage.prompt_tokens_details.as_ref();
    let used = Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: match count(usage.total_tokens) {
            0 => input + output,
            total => total,
        },
        thought_tokens: count(usage.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens)),
        cached_read_tokens: count(prompt.and_then(|d| d.cached_tokens)),
        cached_write_tokens: count(prompt.and_then(|d| d.cache_creation_tokens)),
    };
    (used.total_tokens > 0).then_some(used)
}

/// Why there is no answer, in one line, without the request.
fn reason(error: &genai::Error) -> String {
    use genai::Error;
    match error {
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => match webc_error {
            webc::Error::ResponseFailedStatus { status, body, .. } => {
                let what = match status.as_u16() {
                    401 | 403 => "the model's endpoint refuses the key",
                    404 => "the model's endpoint does not know this model, or this path",
                    429 => "the model's endpoint accepts no more requests for now",
                    _ => "the model's endpoint answered with an error",
                };
                format!("{what}: {}", [status.as_u16().to_string(), excerpt(body)].join(" ").trim_end())
            }
            webc::Error::ResponseFailedNotJson { body, .. } => {
                format!("the model's endpoint did not answer with JSON: {}", excerpt(body))
            }
            webc::Error::ResponseFailedInvalidJson { cause, .. } => {
                format!("the model's endpoint answered with malformed JSON: {cause}")
            }
            webc::Error::Reqwest(error) => match error.is_connect() {
                true => format!("the model's endpoint cannot be reached: {}", chain(error)),
                false => format!("the model's endpoint gave no answer: {}", chain(error)),
            },
            webc::Error::JsonValueExt(error) => format!("{NO_ANSWER}: {error}"),
        },
        Error::ChatResponseGeneration { cause, .. } => {
            format!("{NO_ANSWER}: {cause}")
        }
        other => {
            let text = other.to_string();
            format!("the model gave no answer: {}", text.lines().next().unwrap_or_default())
        }
    }
}

fn chain(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut source: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    if text.is_empty() { "the connection broke".to_owned() } else { text }
}

/// The message of an error body, on one line.
fn excerpt(body: &str) -> String {
    let said: Option<Value> = serde_json::from_str(body).ok();
    let said = said.as_ref().map(|v| v.get(0).unwrap_or(v));
    let message = said.and_then(|v| v.pointer("/error/message").or(v.get("message")).or(v.get("error"))?.as_str());
    let text = message.unwrap_or(body).trim();
    let short: String = text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

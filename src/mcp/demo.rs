//! The demonstration server: notes in a directory, exposed as tools, resources and prompts. The examples, the tutorial
//! and the tests evaluate it.

mod notes;

use std::{
    future::Future,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{Timestamp, ToSpan};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, Implementation, InitializeResult, JsonObject, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
        ServerCapabilities, Tool, ToolAnnotations,
    },
    service::{NotificationContext, RequestContext},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

use notes::{Note, NoteError, Notes};

use super::own;

const MARKDOWN: &str = "text/markdown";

/// Serves the notes of a directory, which is created if needed, on standard input and output.
///
/// # Errors
/// The directory cannot be created.
pub async fn serve_stdio(dir: &Path) -> io::Result<()> {
    serve(dir, tokio::io::join(tokio::io::stdin(), tokio::io::stdout())).await
}

/// Serves the notes of a directory on any byte stream, until the stream ends and all requests are answered.
///
/// # Errors
/// The directory cannot be created.
pub async fn serve(dir: &Path, stream: impl AsyncRead + AsyncWrite + Send + 'static) -> io::Result<()> {
    own::serve(Server::open(dir)?, stream, CancellationToken::new()).await
}

/// Serves the notes of a directory over streamable HTTP at `/mcp`, until `stop` is canceled.
pub async fn serve_http(dir: &Path, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
    own::serve_http(Server::open(dir)?, listener, stop).await
}

/// The tools as the server lists them, for writing its lock without starting it.
pub fn listed() -> impl Iterator<Item = (String, String, Value)> {
    let text = |tool: &Tool| tool.description.as_deref().unwrap_or_default().to_owned();
    tools()
        .into_iter()
        .map(move |tool| (tool.name.to_string(), text(&tool), Value::Object((*tool.input_schema).clone())))
}

#[derive(Debug, Clone)]
struct Server {
    notes: Arc<Notes>,
    /// All clients to notify when the list changes.
    peers: Arc<Mutex<Vec<Peer<RoleServer>>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    title: String,
    body: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    tag: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Title {
    title: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Append {
    title: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
}

impl Server {
    fn open(dir: &Path) -> io::Result<Server> {
        Ok(Server { notes: Arc::new(Notes::open(dir)?), peers: Arc::default() })
    }

    /// Returns the result of a tool, or the text of its failure.
    async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        match name {
            "notes_create" => {
                let Create { title, body, tags } = decoded(arguments)?;
                let note = self.notes.create(&title, &body, tags).map_err(text_of)?;
                self.list_changed(context).await;
                Ok(CallToolResult::structured(summary(&note)))
            }
            "notes_list" => {
                let List { tag } = decoded(arguments)?;
                let mut notes = self.notes.all().map_err(text_of)?;
                notes.retain(|note| tag.as_ref().is_none_or(|tag| note.tags.contains(tag)));
                let notes: Vec<Value> = notes.iter().map(summary).collect();
                Ok(CallToolResult::structured(json!({"notes": notes})))
            }
            "notes_read" => {
                let Title { title } = decoded(arguments)?;
                let note = self.notes.read(&title).map_err(text_of)?;
                let mut full = summary(&note);
                full["body"] = Value::from(note.body.as_str());
                let mut result = CallToolResult::structured(full);
                result.content = vec![ContentBlock::text(note.body)];
                Ok(result)
            }
            "notes_append" => {
                let Append { title, text } = decoded(arguments)?;
                let note = self.notes.append(&title, &text).map_err(text_of)?;
                Ok(CallToolResult::structured(summary(&note)))
            }
            "notes_search" => {
                let Search { query } = decoded(arguments)?;
                if query.trim().is_empty() {
                    return Err("an empty query finds everything; use notes_list".to_owned());
                }
                self.search(&query, context).await
            }
            "notes_delete" => {
                let Title { title } = decoded(arguments)?;
                let note = self.notes.delete(&title).map_err(text_of)?;
                self.list_changed(context).await;
                Ok(CallToolResult::structured(json!({"deleted": note.title})))
            }
            _ => Err(format!("there is no tool `{name}`")),
        }
    }

    /// Finds lines that contain the query, ignoring case; reports progress to clients that asked for it.
    async fn search(&self, query: &str, context: &RequestContext<RoleServer>) -> Result<CallToolResult, String> {
        let notes = self.notes.all().map_err(text_of)?;
        let query = query.to_lowercase();
        let token = context.meta.get_progress_token();
        let mut matches = Vec::new();
        let mut done = 0.0;
        let total = u32::try_from(notes.len()).map_or(f64::MAX, f64::from);
        for note in &notes {
            if note.title.to_lowercase().contains(&query) {
                matches.push(json!({"title": note.title, "uri": uri_of(note), "line": 0, "text": note.title}));
            }
            for (number, line) in (1..).zip(note.body.lines()) {
                if line.to_lowercase().contains(&query) {
                    matches.push(json!({"title": note.title, "uri": uri_of(note), "line": number, "text": line}));
                }
            }
            done += 1.0;
            if let Some(token) = &token {
                let progress = ProgressNotificationParam::new(token.clone(), done)
                    .with_total(total)
                    .with_message(format!("searched {}", note.title));
                // If the session has ended, the notification is not missed.
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        Ok(CallToolResult::structured(json!({"matches": matches})))
    }

    /// The caller is notified before it gets its answer, the other clients soon after.
    async fn list_changed(&self, context: &RequestContext<RoleServer>) {
        let mut heard = false;
        let peers: Vec<Peer<RoleServer>> = {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.retain(|peer| !peer.is_transport_closed());
            peers.clone()
        };
        for peer in peers {
            if same(&peer, &context.peer) {
                heard = true;
                let _ = peer.notify_resource_list_changed().await;
            } else {
                tokio::spawn(async move { peer.notify_resource_list_changed().await });
            }
        }
        if !heard {
            let _ = context.peer.notify_resource_list_changed().await;
        }
    }
}

/// Peers have no identity other than the client info they were given.
fn same(one: &Peer<RoleServer>, other: &Peer<RoleServer>) -> bool {
    match (one.peer_info(), other.peer_info()) {
        (Some(one), Some(other)) => Arc::ptr_eq(&one, &other),
        _ => false,
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
        let mut info = InitializeResult::new(capabilities);
        info.server_info = Implementation::new("gevals-notes", env!("CARGO_PKG_VERSION"));
        info.instructions =
            Some("Keeps notes. A note is known by its title; case and punctuation do not matter.".to_owned());
        info
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).push(context.peer);
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !tools().iter().any(|tool| tool.name == request.name) {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let result = self.call(&request.name, arguments, &context).await;
        Ok(result.unwrap_or_else(|text| CallToolResult::error(vec![ContentBlock::text(text)])).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let notes = self.notes.all().map_err(internal)?;
        let resources = notes
            .iter()
            .map(|note| {
                Resource::new(uri_of(note), note.slug.as_str()).with_title(note.title.as_str()).with_mime_type(MARKDOWN)
            })
            .collect();
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("note:///{slug}", "note")
            .with_title("A note")
            .with_description("The text of a note; the slug is its title in lower case with hyphens")
            .with_mime_type(MARKDOWN);
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ReadResourceResponse, ErrorData>> + Send + '_ {
        let uri = request.uri;
        let read = || {
            let missing =
                || ErrorData::resource_not_found(format!("there is no resource `{uri}`"), Some(json!({"uri": uri})));
            let slug = uri.strip_prefix("note:///").and_then(percent_decoded).ok_or_else(missing)?;
            let note = match self.notes.by_slug(&slug) {
                Ok(note) => note,
                Err(NoteError::Unknown(_)) => return Err(missing()),
                Err(error) => return Err(internal(error)),
            };
            let contents = ResourceContents::text(note.body, uri.as_str()).with_mime_type(MARKDOWN);
            Ok(ReadResourceResult::new(vec![contents]).into())
        };
        std::future::ready(read())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let title = PromptArgument::new("title").with_description("The title of the note").with_required(true);
        Ok(ListPromptsResult::with_all_items(vec![
            Prompt::new("summarise_note", Some("Asks for a summary of one note"), Some(vec![title])),
            Prompt::new("weekly_review", Some("Asks for a review of the notes of the last seven days"), None),
        ]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let text = match request.name.as_str() {
            "summarise_note" => {
                let title = request.arguments.as_ref().and_then(|arguments| arguments.get("title")?.as_str());
                let title = title.ok_or_else(|| ErrorData::invalid_params("the argument `title` is missing", None))?;
                let note = self.notes.read(title).map_err(|error| match error {
                    NoteError::Unknown(_) => ErrorData::invalid_params(error.to_string(), None),
                    error => internal(error),
                })?;
                format!("Summarise the note \"{}\" in at most three sentences.\n\n{}", note.title, note.body)
            }
            "weekly_review" => {
                let since = Timestamp::now().checked_sub((7 * 24).hours()).unwrap_or(Timestamp::MIN);
                let mut notes = self.notes.all().map_err(internal)?;
                notes.retain(|note| note.created >= since);
                let titles: Vec<String> = notes.iter().map(|note| format!("- {}", note.title)).collect();
                if titles.is_empty() {
                    "No notes were written in the last seven days. Say so, and nothing else.".to_owned()
                } else {
                    format!(
                        "Read these notes and review the week: what was done, what is open.\n\n{}",
                        titles.join("\n")
                    )
                }
            }
            name => return Err(ErrorData::invalid_params(format!("there is no prompt `{name}`"), None)),
        };
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }
}

fn tools() -> Vec<Tool> {
    let title = json!({"type": "string", "minLength": 1, "description": "The title of the note"});
    let tags = json!({"type": "array", "items": {"type": "string", "minLength": 1}});
    let summary = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"}, "slug": {"type": "string"}, "uri": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}}, "created": {"type": "string", "format": "date-time"},
        },
        "required": ["title", "slug", "uri", "tags", "created"],
    });
    let mut full = summary.clone();
    full["properties"]["body"] = json!({"type": "string"});
    full["required"] = json!(["title", "slug", "uri", "tags", "created", "body"]);
    let list_of = |key: &str, item: &Value| json!({"type": "object", "properties": {key: {"type": "array", "items": item}}, "required": [key]});
    let found = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"}, "uri": {"type": "string"}, "text": {"type": "string"},
            "line": {"type": "integer", "minimum": 0, "description": "From 1; 0 is the title"},
        },
        "required": ["title", "uri", "line", "text"],
    });
    let deleted = json!({"type": "object", "properties": {"deleted": {"type": "string"}}, "required": ["deleted"]});
    let read_only = ToolAnnotations::new().read_only(true);
    let adding = ToolAnnotations::new().read_only(false).destructive(false);
    let removing = ToolAnnotations::new().read_only(false).destructive(true);
    vec![
        tool(
            "notes_create",
            "Creates a note. Fails if there is one with this title already",
            &json!({"title": title, "body": {"type": "string", "description": "Its text, in Markdown"}, "tags": tags}),
            &["title", "body"],
            &summary,
            &adding,
        ),
        tool(
            "notes_list",
            "Lists all notes, or those with a tag",
            &json!({"tag": {"type": "string", "description": "Only notes with this tag"}}),
            &[],
            &list_of("notes", &summary),
            &read_only,
        ),
        tool("notes_read", "Gives the text of a note", &json!({"title": title}), &["title"], &full, &read_only),
        tool(
            "notes_append",
            "Adds text to the end of a note, on lines of its own",
            &json!({"title": title, "text": {"type": "string"}}),
            &["title", "text"],
            &summary,
            &adding,
        ),
        tool(
            "notes_search",
            "Finds the lines of all notes that hold a text, in any case",
            &json!({"query": {"type": "string", "minLength": 1}}),
            &["query"],
            &list_of("matches", &found),
            &read_only,
        ),
        tool("notes_delete", "Deletes a note for good", &json!({"title": title}), &["title"], &deleted, &removing),
    ]
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: &Value,
    required: &[&str],
    output: &Value,
    annotations: &ToolAnnotations,
) -> Tool {
    let input = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    let object = |schema: &Value| Arc::new(schema.as_object().cloned().unwrap_or_default());
    Tool::new(name, description, object(&input))
        .with_raw_output_schema(object(output))
        .with_annotations(annotations.clone())
}

fn summary(note: &Note) -> Value {
    let Note { slug, title, tags, created, .. } = note;
    json!({"title": title, "slug": slug, "uri": uri_of(note), "tags": tags, "created": created})
}

fn uri_of(note: &Note) -> String {
    let mut uri = "note:///".to_owned();
    for byte in note.slug.bytes() {
        if byte.is_ascii() { uri.push(byte.into()) } else { uri.push_str(&format!("%{byte:02X}")) }
    }
    uri
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let digits = str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

fn decoded<T: for<'de> Deserialize<'de>>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| format!("bad arguments: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn text_of(error: NoteError) -> String {
    error.to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn internal(error: NoteError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

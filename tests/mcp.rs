//! The hub, its fronts and its client, with servers implemented by the tests, small shell scripts, and rmcp.
#![cfg(feature = "run")]

use std::{sync::Arc, time::Duration};

use gevals::{
    mcp::{CallKind, CallOutcome, ClientOptions, Direction, Hub, HubOptions, Recorder, ServerError, SessionKind},
    secrets::Secrets,
};
use serde_json::{Value, json};

use crate::support::mcp::{self as fakes, Agent, FakeServer, agent_kind, hub, shell};

#[tokio::test]
async fn a_session_is_relayed_and_recorded() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let mut ends = recorder.subscribe();
    let mut agent = Agent::on(&hub, SessionKind::Agent(recorder.clone()));

    let initialize = r#" {"jsonrpc":"2.0" , "id":"\u0061", "method":"initialize","params":{"capabilities":{"x":1e2}}}"#;
    agent.send(initialize).await;
    assert_eq!(server.next().await, initialize);
    let answer = r#"{"id":"a","result":{"capabilities":{},"vendor":[1.00]},"jsonrpc":"2.0"}"#;
    server.send(answer).await;
    assert_eq!(agent.next().await, answer);
    assert_eq!(hub.server().unwrap()["vendor"].to_string(), "[1.00]", "numbers keep their digits");

    let exchanges = [
        (
            r#"{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}"#,
            r#"{"id":1.0,"result":{"content":[],"v":1}}"#,
        ),
        (
            r#"{"id":2,"method":"tools/call","params":{"name":"bad"}}"#,
            r#"{"id":2,"result":{"content":[],"isError":true}}"#,
        ),
        (
            r#"{"id":3,"method":"resources/read","params":{"uri":"x://y"}}"#,
            r#"{"id":3,"error":{"code":-32002,"message":"none"}}"#,
        ),
        (r#"{"id":4,"method":"prompts/get","params":{"name":"p"}}"#, r#"{"id":4,"result":{"messages":[]}}"#),
        (r#"{"id":5,"method":"tools/list"}"#, r#"{"id":5,"result":{"tools":[]}}"#),
    ];
    for (request, answer) in exchanges {
        agent.send(request).await;
        assert_eq!(server.next().await, request);
        server.send(answer).await;
        assert_eq!(agent.next().await, answer);
    }
    let records = recorder.records();
    let short: Vec<_> =
        records.iter().map(|record| (record.kind, record.name.as_str(), record.outcome.clone())).collect();
    assert_eq!(
        short,
        [
            (CallKind::Tool, "t", CallOutcome::Ok),
            (CallKind::Tool, "bad", CallOutcome::ToolError),
            (CallKind::Resource, "x://y", CallOutcome::ProtocolError { code: -32002, message: "none".into() }),
            (CallKind::Prompt, "p", CallOutcome::Ok),
        ]
    );
    assert_eq!(records[0].params, json!({"name": "t", "arguments": {"a": 1}}));
    assert_eq!(records[0].result, Some(json!({"content": [], "v": 1})));
    assert!(records.windows(2).all(|pair| pair[0].started <= pair[1].started));
    for record in records {
        assert_eq!(ends.recv().await.unwrap(), record);
    }
}

#[tokio::test]
async fn calls_of_gevals_itself_are_not_recorded() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let serve = tokio::spawn(async move {
        server.answer_initialize(json!({"tools": {}})).await;
        for page in 0..3 {
            let request = server.next_json().await;
            assert_eq!(request["params"]["cursor"].as_str(), (page > 0).then(|| format!("c{page}")).as_deref());
            let mut result = json!({"tools": [{"name": format!("t{page}"), "x-vendor": page}]});
            if page < 2 {
                result["nextCursor"] = json!(format!("c{}", page + 1));
            }
            server.reply(&request, result).await;
        }
        let request = server.next_json().await;
        server
            .reply(
                &request,
                json!({"content": [{"type": "text", "text": "hi"}], "structuredContent": {"a": 1}, "isError": true}),
            )
            .await;
        server.send(r#"{"id":"s","method":"ping"}"#).await;
        assert_eq!(server.next_json().await, json!({"jsonrpc": "2.0", "id": "s", "result": {}}));
        server.send(r#"{"id":"t","method":"sampling/createMessage"}"#).await;
        assert_eq!(server.next_json().await["error"]["code"], -32601);
        server.send(r#"{"method":"notifications/evals/list_changed","params":{"n":1}}"#).await;
        server
    });
    let client = hub.client(SessionKind::Own, ClientOptions::default()).await.unwrap();
    let mut notifications = client.notifications();
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| &tool["x-vendor"]).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(client.list_prompts().await.unwrap(), Vec::<Value>::new());
    let result = client.call_tool("t1", json!({})).await.unwrap();
    assert_eq!((result.text().as_str(), result.structured, result.is_error), ("hi", Some(json!({"a": 1})), true));
    let notification = notifications.recv().await.unwrap();
    assert_eq!(
        (notification.method.as_str(), &notification.params["n"]),
        ("notifications/evals/list_changed", &json!(1))
    );
    assert!(recorder.records().is_empty());
    drop(serve.await.unwrap());
    // The server has closed its streams.
    let error = client.call_tool("t1", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("closed its output"), "{error}");
}

#[tokio::test]
async fn one_handshake_serves_all_sessions() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let mut first = Agent::on(&hub, SessionKind::Own);
    let mut second = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    first.send(r#"{"id":0,"method":"initialize","params":{"capabilities":{"roots":{}}}}"#).await;
    server.next().await;
    // This one has to wait for the answer to the first one.
    second.send(r#"{"id":"x","method":"initialize","params":{"capabilities":{"roots":{"listChanged":true}}}}"#).await;
    server.send(r#"{"id":0,"result":{"a": 1.10}}"#).await;
    assert_eq!(first.next().await, r#"{"id":0,"result":{"a": 1.10}}"#);
    assert_eq!(second.next().await, r#"{"jsonrpc":"2.0","id":"x","result":{"a": 1.10}}"#);
    assert!(recorder.notices()[0].text.contains("listChanged"), "{:?}", recorder.notices());
    for agent in [&mut first, &mut second] {
        agent.send(r#"{"method":"notifications/initialized"}"#).await;
        agent.send(r#"{"id":1,"method":"ping"}"#).await;
    }
    assert_eq!(server.next().await, r#"{"method":"notifications/initialized"}"#);
    for _ in 0..2 {
        assert_eq!(server.next_json().await["method"], "ping");
    }
}

#[tokio::test]
async fn a_refused_handshake_is_retried_for_the_next_session() {
    let (hub, mut server) = hub(HubOptions::default());
    let mut first = Agent::on(&hub, SessionKind::Own);
    let mut second = Agent::on(&hub, SessionKind::Own);
    first.send(r#"{"id":0,"method":"initialize","params":{"v":1}}"#).await;
    server.next().await;
    second.send(r#"{"id":0,"method":"initialize","params":{"v":2}}"#).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.send(r#"{"id":0,"error":{"code":-1,"message":"no"}}"#).await;
    assert_eq!(first.next_json().await["error"]["code"], -1);
    let again = server.next_json().await;
    assert_eq!(again["params"]["v"], 2);
    server.send(&format!(r#"{{"id":{},"result":{{}}}}"#, again["id"])).await;
    assert_eq!(second.next().await, r#"{"id":0,"result":{}}"#);
}

#[tokio::test]
async fn a_server_without_a_handshake_is_supported() {
    let (hub, mut server) = hub(HubOptions::default());
    let serve = tokio::spawn(async move {
        assert_eq!(server.next_json().await["method"], "initialize");
        server.send(r#"{"id":0,"error":{"code":-32601,"message":"no such method"}}"#).await;
        let mut asked = Vec::new();
        for result in
            [json!({"capabilities": {"tools": {}}}), json!({"tools": [{"name": "t"}]}), json!({"content": []})]
        {
            let request = server.next_json().await;
            let meta = &request["params"]["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
            asked.push(request["method"].as_str().unwrap().to_owned());
            server.reply(&request, result).await;
        }
        assert_eq!(asked, ["server/discover", "tools/list", "tools/call"]);
    });
    let client = hub.client(SessionKind::Own, ClientOptions::default()).await.unwrap();
    assert_eq!(client.list_tools().await.unwrap(), [json!({"name": "t"})]);
    client.call_tool("t", json!({})).await.unwrap();
    serve.await.unwrap();
}

/// A server that serves only the protocol era of the first message that it receives, and reports which.
const ONE_ERA: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    [ -n "$era" ] || case $line in *'"initialize"'*) era=handshake ;; *) era=stateless ;; esac
    [ -z "$id" ] || echo "{\"id\":$id,\"result\":{\"era\":\"$era\",\"pid\":$$}}"
done
"#;

#[tokio::test]
async fn clients_of_both_eras_share_a_server_in_any_order() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let greeting = r#"{"id":1,"method":"initialize","params":{}}"#.to_owned();
    let discovery = format!(r#"{{"id":1,"method":"server/discover","params":{{{meta}}}}}"#);
    let plain = r#"{"id":2,"method":"tools/call","params":{"name":"t"}}"#.to_owned();
    let modern = format!(r#"{{"id":2,"method":"tools/call","params":{{"name":"t",{meta}}}}}"#);
    let eras = [("handshake", greeting, plain), ("stateless", discovery, modern)];
    for order in [[0, 1], [1, 0]] {
        let hub = Hub::start(shell(ONE_ERA), HubOptions::default()).await.unwrap();
        let recorder = Recorder::default();
        let mut agents = Vec::new();
        for at in order {
            agents.push((at, Agent::on(&hub, SessionKind::Agent(recorder.clone()))));
        }
        let mut pids = Vec::new();
        for (at, agent) in &mut agents {
            let (era, first, call) = &eras[*at];
            for message in [first, call] {
                agent.send(message).await;
                let answer: Value = serde_json::from_str(&agent.next().await).unwrap();
                assert_eq!(answer["result"]["era"], *era, "{message}");
                pids.push(answer["result"]["pid"].as_u64().unwrap());
            }
        }
        assert_eq!((pids[0] == pids[1], pids[1] == pids[2], pids[2] == pids[3]), (true, false, true));
        assert_eq!(recorder.records().len(), 2);
        assert!(hub.notices().iter().any(|notice| notice.text.contains("runs once for each kind")));
        hub.close().await;
        for pid in pids {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            assert!(rustix::process::test_kill_process(pid).is_err(), "{pid:?} still runs");
        }
    }
}

#[tokio::test]
async fn clients_of_one_era_share_a_server_and_a_failed_probe_has_no_effect() {
    // A client that works without a handshake tries a server that requires one.
    let script = r#"
while read -r line; do
    case $line in
    *server/discover*) echo '{"id":1,"error":{"code":-32601,"message":"no such method"}}' ;;
    *'"initialize"'*) echo "{\"id\":2,\"result\":{\"pid\":$$}}" ;;
    esac
done
"#;
    let hub = Hub::start(shell(script), HubOptions::default()).await.unwrap();
    let mut agent = Agent::on(&hub, agent_kind());
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    agent.send(&format!(r#"{{"id":1,"method":"server/discover","params":{{{meta}}}}}"#)).await;
    assert!(agent.next().await.contains("-32601"));
    agent.send(r#"{"id":2,"method":"initialize","params":{}}"#).await;
    let answer: Value = serde_json::from_str(&agent.next().await).unwrap();
    assert_eq!(answer["result"]["pid"].as_u64(), hub.pid().map(u64::from));
    hub.close().await;
}

#[tokio::test]
async fn ids_and_tokens_of_two_sessions_are_separate() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let mut one = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    let mut two = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    let request = |who: &str| {
        format!(r#"{{"id": 7 , "method":"tools/call","params":{{"_meta":{{"progressToken":"t"}},"name":"{who}"}}}}"#)
    };
    one.send(&request("one")).await;
    assert_eq!(server.next().await, request("one"));
    two.send(&request("two")).await;
    let seen = server.next().await;
    let other: Value = serde_json::from_str(&seen).unwrap();
    let (id, token) = (&other["id"], &other["params"]["_meta"]["progressToken"]);
    assert!(id.is_u64() && *id != 7 && token.is_string() && *token != "t", "{seen}");
    // Only the ID and the token differ.
    assert_eq!(seen.replace(&id.to_string(), "7").replace(token.as_str().unwrap(), "t"), request("two"));

    let progress = |token: &Value| {
        format!(r#"{{"method":"notifications/progress", "params":{{"progressToken":{token} ,"progress":1}}}}"#)
    };
    server.send(&progress(token)).await;
    server.send(&progress(&json!("t"))).await;
    assert_eq!(two.next().await, progress(&json!("t")));
    assert_eq!(one.next().await, progress(&json!("t")));

    // A cancellation refers to the session's own request.
    two.send(r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#).await;
    assert_eq!(server.next_json().await["params"]["requestId"], *id);
    server.send(&format!(r#"{{"result":{{"content":[{{"id":{id}}}]}},"id":{id}}}"#)).await;
    server.send(r#"{"result":{},"id":7 }"#).await;
    assert_eq!(two.next().await, format!(r#"{{"result":{{"content":[{{"id":{id}}}]}},"id":7}}"#));
    assert_eq!(one.next().await, r#"{"result":{},"id":7 }"#);
    let outcomes: Vec<_> = recorder.records().into_iter().map(|record| (record.name, record.outcome)).collect();
    assert_eq!(outcomes, [("one".to_owned(), CallOutcome::Ok), ("two".to_owned(), CallOutcome::Cancelled)]);
}

#[tokio::test]
async fn messages_about_an_answered_request_are_dropped() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let call = |name: &str| format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"{name}"}}}}"#);
    let answer = |id: &Value| format!(r#"{{"id":{id},"result":{{"of":{id}}}}}"#);
    let mut one = Agent::on(&hub, agent_kind());
    one.send(&call("one")).await;
    assert_eq!(server.next().await, call("one"), "the first bytes pass as they are");
    server.send(&answer(&json!(1))).await;
    assert_eq!(one.next().await, answer(&json!(1)));
    drop(one);
    let mut two = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    let mut ids = Vec::new();
    for _ in 0..3 {
        two.send(&call("two")).await;
        let id = server.next_json().await["id"].clone();
        server.send(&answer(&json!(1))).await;
        ids.iter().for_each(|old| assert_ne!(*old, id));
        server.send(&answer(&id)).await;
        assert_eq!(two.next_json().await, json!({"id": 1, "result": {"of": id}}));
        ids.push(id);
    }
    server.send(&answer(&ids[0])).await;
    server.send(r#"{"method":"notifications/x"}"#).await;
    assert_eq!(two.next_json().await["method"], "notifications/x");
    let texts: Vec<String> = recorder.notices().into_iter().map(|notice| notice.text).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts[0].contains("answered a request once more"), "{texts:?}");
}

#[tokio::test]
async fn requests_of_a_server_go_to_the_active_agent() {
    let (hub, mut server) = hub(HubOptions::default());
    let mut own = Agent::on(&hub, SessionKind::Own);
    own.send(r#"{"id":1,"method":"tools/call"}"#).await;
    server.next().await;
    server.send(r#"{"id":5,"method":"ping"}"#).await;
    assert_eq!(server.next_json().await, json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    server.send(r#"{"id":6,"method":"roots/list"}"#).await;
    assert_eq!(server.next_json().await["error"]["code"], -32601);

    let mut busy = Agent::on(&hub, agent_kind());
    let mut idle = Agent::on(&hub, agent_kind());
    busy.send(r#"{"id":2,"method":"tools/call"}"#).await;
    server.next().await;
    idle.send(r#"{"method":"notifications/x"}"#).await;
    server.next().await;
    let request = r#"{"id":1, "method":"sampling/createMessage","params":{"vendor":1.0}}"#;
    server.send(request).await;
    assert_eq!(busy.next().await, request);
    // No other session may answer.
    idle.send(r#"{"id":1,"result":{"from":"idle"}}"#).await;
    busy.send(r#"{"id":1,"result":{"from":"busy"}}"#).await;
    assert_eq!(server.next().await, r#"{"id":1,"result":{"from":"busy"}}"#);

    server.send(r#"{"id":8,"method":"elicitation/create"}"#).await;
    busy.next().await;
    drop(busy);
    let gone = [server.next_json().await, server.next_json().await];
    assert!(gone.iter().any(|message| message["id"] == 8 && message["error"].is_object()), "{gone:?}");
    assert!(gone.iter().any(|message| message["params"]["requestId"] == 2), "{gone:?}");
}

#[tokio::test]
async fn a_session_that_ends_cancels_its_calls() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let mut agent = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    agent.send(r#"{"id":1,"method":"tools/call","params":{"name":"slow"}}"#).await;
    server.next().await;
    assert_eq!(recorder.running(), 1);
    drop(agent);
    assert_eq!((recorder.running(), &recorder.records()[0].outcome), (0, &CallOutcome::Cancelled));
    assert_eq!(server.next_json().await["method"], "notifications/cancelled");
    // The late answer has no receiver, and its ID still counts as used.
    let mut next = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    next.send(r#"{"id":1,"method":"tools/call","params":{"name":"quick"}}"#).await;
    let id = server.next_json().await["id"].clone();
    assert_ne!(id, 1);
    server.send(r#"{"id":1,"result":{"late":true}}"#).await;
    server.send(&format!(r#"{{"id":{id},"result":{{"late":false}}}}"#)).await;
    assert_eq!(next.next_json().await, json!({"id": 1, "result": {"late": false}}));
}

#[tokio::test]
async fn invalid_messages_are_skipped_and_then_fatal() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let mut agent = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    agent.send("not json").await;
    assert_eq!(agent.next_json().await["error"]["code"], -32700);
    agent.send(r#"{"id":1,"method":"tools/call","params":{"name":"t"}}"#).await;
    server.next().await;
    server.send("Listening on port 1").await;
    server.send(r#"{"level":"info"}"#).await;
    server.send("\u{1b}[0m\r").await;
    server.send(r#"{"id":1,"result":{}}"#).await;
    assert_eq!(agent.next().await, r#"{"id":1,"result":{}}"#);
    assert!(hub.notices().iter().any(|notice| notice.text.contains("Listening on port 1")), "{:?}", hub.notices());
    agent.send(r#"{"id":2,"method":"tools/call","params":{"name":"t"}}"#).await;
    for _ in 0..500 {
        server.send("rubbish").await;
    }
    let error = agent.next_json().await;
    assert_eq!(error["error"]["code"], -32000);
    assert!(error["error"]["message"].as_str().unwrap().contains("does not speak MCP"), "{error}");
    assert!(matches!(hub.failure(), Some(ServerError::NotMcp { excerpt, .. }) if excerpt == "rubbish"));
    assert_eq!(recorder.records()[1].outcome, CallOutcome::Lost);
}

#[tokio::test]
async fn a_message_beyond_the_limit_fails_only_its_call() {
    let (hub, mut server) = hub(HubOptions { max_message: 100_000, ..HubOptions::default() });
    let recorder = Recorder::default();
    let mut agent = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    let fits = format!(r#"{{"method":"{}"}}"#, "x".repeat(90_000));
    server.send(&fits).await;
    assert_eq!(agent.next().await, fits);
    let long = "x".repeat(300_000);
    for (id, key) in [("7", "7"), (r#""b\\""#, r#""b\\""#)] {
        agent.send(&format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#)).await;
        server.next().await;
        server.send(&format!(r#"{{"result":{{"id":1,"text":"{long}"}},"jsonrpc":"2.0","id":{key}}}"#)).await;
        let answer = agent.next_json().await;
        assert_eq!(answer["id"].to_string(), id);
        let message = answer["error"]["message"].to_string();
        assert!(message.contains("more than 100000 bytes") && message.contains("--max-message"), "{message}");
    }
    // The server is still usable.
    let CallOutcome::ProtocolError { message, .. } = &recorder.records()[0].outcome else { panic!() };
    assert!(message.contains("more than 100000 bytes"), "{message}");
    // A long request from the server is refused, a long notification is dropped, and the same applies in the other
    // direction.
    server.send(&format!(r#"{{"params":"{long}","id":3,"method":"roots/list"}}"#)).await;
    assert_eq!(server.next_json().await["error"]["code"], -32600);
    server.send(&format!(r#"{{"params":"{long}","method":"notifications/x"}}"#)).await;
    agent.send(&format!(r#"{{"params":"{long}","id":8,"method":"tools/call"}}"#)).await;
    let answer = agent.next_json().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(8), &json!(-32600)));
    agent.send(r#"{"id":9,"method":"ping"}"#).await;
    assert_eq!(server.next_json().await["id"], 9);
    server.send(r#"{"id":9,"result":{}}"#).await;
    assert_eq!(agent.next_json().await["id"], 9);
    assert!(hub.failure().is_none());
}

#[tokio::test]
async fn an_endless_invalid_message_breaks_the_connection() {
    let (hub, mut server) = hub(HubOptions { max_message: 100_000, ..HubOptions::default() });
    let mut agent = Agent::on(&hub, agent_kind());
    agent.send(r#"{"id":1,"method":"tools/call"}"#).await;
    server.next().await;
    let endless = tokio::spawn(async move { server.send(&"x".repeat(10_000_000)).await });
    let message = agent.next_json().await["error"]["message"].to_string();
    assert!(message.contains("more than 100000 bytes"), "{message}");
    endless.abort();
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_times_out() {
    let (hub, _server) = hub(HubOptions::default());
    let error = hub.client(SessionKind::Own, ClientOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "`fake` did not answer `initialize` within 30 s");
}

#[tokio::test]
async fn secrets_are_masked_in_records_and_not_on_the_wire() {
    let secrets = Arc::new(Secrets::new(["hunter2hunter2"]));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tapped = seen.clone();
    let (hub, mut server) = hub(HubOptions {
        secrets: secrets.clone(),
        on_message: Some(Arc::new(move |traffic| {
            tapped.lock().unwrap().push((traffic.direction, String::from_utf8(traffic.message.to_vec()).unwrap()));
        })),
        ..HubOptions::default()
    });
    let recorder = Recorder::new(secrets);
    let mut agent = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    let request =
        r#"{"id":1,"method":"tools/call","params":{"name":"hunter2hunter2","arguments":{"p":"a hunter2hunter2"}}}"#;
    let answer = r#"{"id":1,"result":{"content":[{"text":"aHVudGVyMmh1bnRlcjI="}]}}"#;
    agent.send(request).await;
    assert_eq!(server.next().await, request);
    server.send("log: hunter2hunter2").await;
    server.send(answer).await;
    assert_eq!(agent.next().await, answer);
    let unmasked = recorder.records()[0].unmasked.clone().unwrap();
    assert_eq!(
        (unmasked.name.as_str(), &unmasked.params["arguments"]["p"]),
        ("hunter2hunter2", &json!("a hunter2hunter2"))
    );
    let text = format!("{:?}{:?}", recorder.records(), hub.notices());
    assert!(text.contains("a ***") && !text.contains("hunter2") && !text.contains("aHVud"), "{text}");
    assert_eq!(
        *seen.lock().unwrap(),
        [(Direction::ToServer, request.to_owned()), (Direction::FromServer, answer.to_owned())]
    );
}

#[tokio::test]
async fn ten_thousand_unusual_messages_are_relayed_unchanged() {
    let (hub, server) = hub(HubOptions::default());
    let mut agent = Agent::on(&hub, agent_kind());
    let mut random = fastrand::Rng::with_seed(7);
    let mut sent = Vec::new();
    for number in 0..10_000 {
        // Every third message answers a request that is in progress at that point.
        if number % 3 == 0 {
            agent.send(&format!(r#"{{"id":{number},"method":"x"}}"#)).await;
        }
        sent.push(fakes::odd_message(&mut random, number, number % 3 == 0));
    }
    let FakeServer { mut reader, mut writer } = server;
    let expected = sent.clone();
    let pump = tokio::spawn(async move {
        for message in sent {
            fakes::write_line(&mut writer, &message).await;
        }
        writer
    });
    let drain = tokio::spawn(async move { while reader.next_line().await.unwrap().is_some() {} });
    for message in expected {
        assert_eq!(agent.next().await, message);
    }
    pump.await.unwrap();
    drain.abort();
}

mod process {
    use super::*;

    /// Its input is closed first; a server that then exits by itself receives no signal.
    #[tokio::test]
    async fn a_server_ends_when_its_input_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ended");
        let script = format!("while read -r line; do :; done; echo by itself > '{}'", file.display());
        let hub = Hub::start(shell(&script), HubOptions::default()).await.unwrap();
        hub.close().await;
        assert_eq!(tokio::fs::read_to_string(file).await.unwrap(), "by itself\n");
    }

    #[tokio::test]
    async fn a_missing_command_is_named() {
        let error = Hub::start(fakes::stdio("no-such-server-here", &[]), HubOptions::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "could not start `srv`: no such command `no-such-server-here`");
        let error = Hub::start(fakes::stdio("no-such-server --stdio", &[]), HubOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("no shell splits it"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_exits_immediately_is_reported_with_the_reason() {
        let options = HubOptions { secrets: Arc::new(Secrets::new(["s3cret-token"])), ..HubOptions::default() };
        let hub = Hub::start(shell("echo 'bad token s3cret-token' >&2; exit 3"), options).await.unwrap();
        let error = hub.client(SessionKind::Own, ClientOptions::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "`srv` exited with status 3:\nbad token ***");
        assert_eq!(hub.exited().as_deref(), Some("exited with status 3"));
        assert_eq!(hub.stderr_tail(), "bad token ***\n");
    }

    #[tokio::test]
    async fn a_call_is_lost_if_the_server_dies() {
        let script = r#"read a; echo '{"id":0,"result":{}}'; read b; read c; kill -9 $$"#;
        let hub = Hub::start(shell(script), HubOptions::default()).await.unwrap();
        let recorder = Recorder::default();
        let client = hub.client(SessionKind::Agent(recorder.clone()), ClientOptions::default()).await.unwrap();
        let error = client.call_tool("t", json!({})).await.unwrap_err();
        assert_eq!(error.to_string(), "`srv` was killed by signal 9 (SIGKILL)");
        assert_eq!(recorder.records()[0].outcome, CallOutcome::Lost);
        // So are all later calls.
        assert_eq!(client.call_tool("t", json!({})).await.unwrap_err(), error);
    }

    #[tokio::test]
    async fn nothing_is_left_running() {
        for drop_it in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("pids");
            // Neither the shell nor its child exits when its input is closed, or on SIGTERM.
            let script = format!(
                r#"trap '' TERM; sleep 1000 & echo $$ $! > {0}.new; mv {0}.new {0}; while :; do sleep 1; done"#,
                file.display()
            );
            let options = HubOptions { close_grace: Duration::from_millis(100), ..HubOptions::default() };
            let hub = Hub::start(shell(&script), options).await.unwrap();
            let pids = loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if let Ok(text) = tokio::fs::read_to_string(&file).await {
                    break text;
                }
            };
            if drop_it {
                drop(hub);
            } else {
                hub.close().await;
                assert_eq!(hub.exited().as_deref(), Some("was killed by signal 9 (SIGKILL)"));
            }
            for pid in pids.split_whitespace() {
                let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
                let mut tries = 0;
                while rustix::process::test_kill_process(pid).is_ok() && fakes::is_running(pid).await {
                    tries += 1;
                    assert!(tries < 200, "{pid:?} still runs");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

mod notes {
    use super::*;
    use gevals::mcp::{CallError, Client, demo};

    async fn on_demo(dir: &std::path::Path, kind: SessionKind) -> (Hub, Client) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let dir = dir.to_owned();
        tokio::spawn(async move { demo::serve(&dir, far).await });
        let (reader, writer) = tokio::io::split(near);
        let hub = Hub::from_streams("notes", reader, writer, HubOptions::default());
        let client = hub.client(kind, ClientOptions::default()).await.unwrap();
        (hub, client)
    }

    #[tokio::test]
    async fn the_demonstration_server_keeps_notes() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::default();
        let (_hub, client) = on_demo(dir.path(), SessionKind::Agent(recorder.clone())).await;
        let mut notifications = client.notifications();

        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.len(), 6);
        let outputs: std::collections::HashMap<_, _> =
            tools.iter().map(|tool| (tool["name"].as_str().unwrap(), &tool["outputSchema"])).collect();
        let call = async |name: &str, arguments: Value| {
            let result = client.call_tool(name, arguments).await.unwrap();
            if let Some(structured) = &result.structured {
                assert!(jsonschema::is_valid(outputs[name], structured), "{name}: {structured}");
            }
            result
        };

        let note =
            call("notes_create", json!({"title": "Café: to buy", "body": "Milk\nBread", "tags": ["shop"]})).await;
        assert_eq!(note.structured.unwrap()["uri"], "note:///caf%C3%A9-to-buy");
        assert_eq!(notifications.recv().await.unwrap().method, "notifications/resources/list_changed");
        let again = call("notes_create", json!({"title": "café to BUY", "body": ""})).await;
        assert!(again.is_error && again.text().contains("already"), "{again:?}");
        call("notes_append", json!({"title": "CAFÉ to buy", "text": "Beer"})).await;
        assert_eq!(call("notes_read", json!({"title": "Café to buy"})).await.text(), "Milk\nBread\nBeer");
        let found = call("notes_search", json!({"query": "bee"})).await.structured.unwrap();
        assert_eq!((&found["matches"][0]["line"], &found["matches"][0]["text"]), (&json!(3), &json!("Beer")));
        assert_eq!(
            call("notes_list", json!({"tag": "shop"})).await.structured.unwrap()["notes"][0]["title"],
            "Café: to buy"
        );
        assert_eq!(call("notes_list", json!({"tag": "x"})).await.structured.unwrap()["notes"], json!([]));
        for arguments in [json!({"title": "../../etc/passwd"}), json!({"title": "!"}), json!({}), json!({"titel": "x"})]
        {
            assert!(call("notes_read", arguments.clone()).await.is_error, "{arguments}");
        }
        let unknown = client.call_tool("notes_burn", json!({})).await.unwrap_err();
        assert!(matches!(unknown, CallError::Protocol { code: -32602, .. }), "{unknown}");

        let listed = client.list_resources().await.unwrap();
        let read = client.read_resource(listed[0]["uri"].as_str().unwrap()).await.unwrap();
        assert_eq!(read["contents"][0]["text"], "Milk\nBread\nBeer");
        assert_eq!(client.list_resource_templates().await.unwrap()[0]["uriTemplate"], "note:///{slug}");
        client.read_resource("note:///none").await.unwrap_err();
        let prompts = client.list_prompts().await.unwrap();
        assert_eq!(
            prompts.iter().map(|prompt| &prompt["name"]).collect::<Vec<_>>(),
            ["summarise_note", "weekly_review"]
        );
        let prompt = client.get_prompt("weekly_review", json!({})).await.unwrap();
        assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("- Café: to buy"), "{prompt}");
        client.get_prompt("summarise_note", json!({"title": "none"})).await.unwrap_err();

        call("notes_delete", json!({"title": "Café to buy"})).await;
        assert_eq!(client.list_resources().await.unwrap(), Vec::<Value>::new());

        let count = |kind| recorder.records().iter().filter(|record| record.kind == kind).count();
        assert_eq!((count(CallKind::Tool), count(CallKind::Resource), count(CallKind::Prompt)), (13, 2, 2));
        assert_eq!(recorder.records().last().unwrap().name, "notes_delete");
    }

    #[tokio::test]
    async fn the_demonstration_server_answers_all_requests_before_the_end_of_input() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let (mut near, far) = tokio::io::duplex(64 * 1024);
            let asked = [
                json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
                    "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}),
                json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                    "params": {"name": "notes_create", "arguments": {"title": "t", "body": "b"}}}),
                json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
                json!({"jsonrpc": "2.0", "id": 3, "method": "resources/list"}),
            ];
            let text: String = asked.iter().map(|message| format!("{message}\n")).collect();
            near.write_all(text.as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
            let (served, answers) = tokio::join!(gevals::mcp::demo::serve(dir.path(), far), async {
                let mut answers = String::new();
                near.read_to_string(&mut answers).await.unwrap();
                answers
            });
            served.unwrap();
            let mut ids: Vec<_> = answers
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64())
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, [0, 1, 2, 3], "{answers}");
        }
    }

    #[tokio::test]
    async fn a_server_ends_with_its_input_after_any_request() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let dir = tempfile::tempdir().unwrap();
        let long = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"ping","params":{{"a":"{}"}}}}"#, "a".repeat(17 << 20));
        for asked in [
            r#"{"id":5,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}"#,
            &long,
        ] {
            let (mut near, far) = tokio::io::duplex(64 * 1024);
            let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
                {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}});
            let ask = async {
                let text = format!("{hello}\n{asked}\n{}\n", json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}));
                near.write_all(text.as_bytes()).await.unwrap();
                near.shutdown().await.unwrap();
                let mut answers = String::new();
                near.read_to_string(&mut answers).await.unwrap();
                assert!(answers.contains(r#""id":6"#), "{answers}");
            };
            let both = async { tokio::join!(gevals::mcp::demo::serve(dir.path(), far), ask) };
            let (served, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.expect("it ends");
            served.unwrap();
        }
    }

    #[tokio::test]
    async fn gevals_and_an_agent_share_a_server() {
        let dir = tempfile::tempdir().unwrap();
        let (hub, own) = on_demo(dir.path(), SessionKind::Own).await;
        let recorder = Recorder::default();
        let agent = hub.client(SessionKind::Agent(recorder.clone()), ClientOptions::default()).await.unwrap();
        let calls = (0..50).map(|number| {
            let (own, agent) = (&own, &agent);
            async move {
                let arguments = json!({"title": format!("note {number}"), "body": ""});
                let (a, b) = tokio::join!(
                    own.call_tool("notes_create", arguments.clone()),
                    agent.call_tool("notes_create", arguments)
                );
                // Exactly one of the two is first.
                assert_ne!(a.unwrap().is_error, b.unwrap().is_error);
            }
        });
        futures_util::future::join_all(calls).await;
        assert_eq!(recorder.records().len(), 50);
        hub.close().await;
        assert_eq!(hub.failure().unwrap().to_string(), "`notes` was closed");
        own.call_tool("notes_list", json!({})).await.unwrap_err();
    }
}

mod http {
    use super::*;
    use std::sync::Mutex;

    use axum::{
        extract::State,
        http::{HeaderMap, Method, StatusCode},
        response::IntoResponse,
    };
    use gevals::mcp::{ServerSpec, Transport, demo};
    use indexmap::IndexMap;
    use rmcp::{
        ClientHandler, RoleClient, ServiceExt,
        model::{CallToolRequestParams, ProgressNotificationParam, ProtocolVersion},
        service::{ClientLifecycleMode, ClientServiceExt, NotificationContext},
        transport::StreamableHttpClientTransport,
    };
    use tokio_util::sync::CancellationToken;

    fn at(url: &str) -> ServerSpec {
        let headers = IndexMap::from([("x-api-key".to_owned(), "s3cret-key".to_owned())]);
        ServerSpec { name: "web".to_owned(), transport: Transport::Http { url: url.to_owned(), headers } }
    }

    /// The demo server over HTTP.
    async fn demo_at(dir: &std::path::Path) -> (String, tokio_util::sync::DropGuard) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let (dir, stopped) = (dir.to_owned(), stop.clone());
        tokio::spawn(async move { demo::serve_http(&dir, listener, stopped).await });
        (url, stop.drop_guard())
    }

    #[derive(Clone, Default)]
    struct Listener(Arc<Mutex<Vec<f64>>>, Arc<tokio::sync::Notify>);

    impl ClientHandler for Listener {
        async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
            self.0.lock().unwrap().push(params.progress);
        }
        async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
            self.1.notify_one();
        }
    }

    /// Everything that an agent does, with rmcp as the agent, through the hub and its front.
    async fn use_through_front(hub: &Hub) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let recorder = Recorder::default();
        let front = hub.serve_http(SessionKind::Agent(recorder.clone())).await.unwrap();
        let listener = Listener::default();
        let agent = listener.clone().serve(StreamableHttpClientTransport::from_uri(front.url.as_str())).await.unwrap();
        let other = ().serve(StreamableHttpClientTransport::from_uri(front.url.as_str())).await.unwrap();
        assert_eq!(agent.peer_info().unwrap().instructions, other.peer_info().unwrap().instructions);
        assert_eq!(agent.list_all_tools().await.unwrap().len(), 6);
        for title in ["one", "two", "three"] {
            let arguments = json!({"title": title, "body": "text"}).as_object().unwrap().clone();
            let request = CallToolRequestParams::new("notes_create").with_arguments(arguments);
            assert_eq!(agent.call_tool(request).await.unwrap().is_error, Some(false));
        }
        tokio::time::timeout(Duration::from_secs(5), listener.1.notified()).await.unwrap();
        let arguments = json!({"query": "text"}).as_object().unwrap().clone();
        let search = CallToolRequestParams::new("notes_search").with_arguments(arguments);
        let (one, two) = tokio::join!(agent.call_tool(search.clone()), other.call_tool(search));
        assert_eq!(one.unwrap().structured_content, two.unwrap().structured_content);
        assert_eq!(*listener.0.lock().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(agent.list_all_resources().await.unwrap().len(), 3);
        let names: Vec<String> = recorder.records().into_iter().map(|record| record.name).collect();
        assert_eq!(names, ["notes_create", "notes_create", "notes_create", "notes_search", "notes_search"]);
        agent.cancel().await.unwrap();
        drop(front);
        let arguments = json!({"title": "x", "body": ""}).as_object().unwrap().clone();
        let late = other.call_tool(CallToolRequestParams::new("notes_create").with_arguments(arguments));
        late.await.unwrap_err();
    }

    #[tokio::test]
    async fn an_agent_reaches_a_process_over_http() {
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let served = dir.path().to_owned();
        tokio::spawn(async move { demo::serve(&served, far).await });
        let (reader, writer) = tokio::io::split(near);
        use_through_front(&Hub::from_streams("notes", reader, writer, HubOptions::default())).await;
    }

    #[tokio::test]
    async fn an_agent_reaches_an_http_server_over_http() {
        let dir = tempfile::tempdir().unwrap();
        let (url, _stop) = demo_at(dir.path()).await;
        let hub = Hub::start(at(&url), HubOptions::default()).await.unwrap();
        use_through_front(&hub).await;
        hub.close().await;
    }

    /// An agent that does no handshake and identifies itself in each request, as in MCP since 2026-07-28.
    #[tokio::test]
    async fn an_agent_without_a_handshake_is_served() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let served = dir.path().to_owned();
        tokio::spawn(async move { demo::serve(&served, far).await });
        let (reader, writer) = tokio::io::split(near);
        let over_stdio = Hub::from_streams("notes", reader, writer, HubOptions::default());
        let (url, _stop) = demo_at(dir.path()).await;
        let over_http = Hub::start(at(&url), HubOptions::default()).await.unwrap();
        for (title, hub) in [("one", over_stdio), ("two", over_http)] {
            let recorder = Recorder::default();
            let front = hub.serve_http(SessionKind::Agent(recorder.clone())).await.unwrap();
            let transport = StreamableHttpClientTransport::from_uri(front.url.as_str());
            let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
            let agent = Listener::default().serve_with_lifecycle(transport, mode).await.unwrap();
            assert_eq!(agent.list_all_tools().await.unwrap().len(), 6, "{title}");
            let arguments = json!({"title": title, "body": "text"}).as_object().unwrap().clone();
            let request = CallToolRequestParams::new("notes_create").with_arguments(arguments);
            assert_eq!(agent.call_tool(request).await.unwrap().is_error, Some(false), "{title}");
            let records = recorder.records();
            assert_eq!((records.len(), records[0].outcome.clone()), (1, CallOutcome::Ok), "{title}");
            agent.cancel().await.unwrap();
            hub.close().await;
        }
    }

    #[tokio::test]
    async fn an_agent_without_http_uses_a_bridge() {
        let (hub, mut server) = hub(HubOptions::default());
        let recorder = Recorder::default();
        let front = hub.serve_http(SessionKind::Agent(recorder.clone())).await.unwrap();
        tokio::spawn(async move {
            server.answer_initialize(json!({})).await;
            server.next().await;
            server.send(r#"{"method":"notifications/x","params":1.0}"#).await;
            server.send(r#"{"result":{"v":1.00},"id":"c"}"#).await;
            std::future::pending::<()>().await;
        });
        let input = br#"{"id":0,"method":"initialize","params":{}}
{"method":"notifications/initialized"}

{"id":"c","method":"tools/call","params":{"name":"t"}}
"#;
        let mut output = Vec::new();
        gevals::mcp::bridge(&front.url, &input[..], &mut output).await.unwrap();
        let output = String::from_utf8(output).unwrap();
        let lines: Vec<&str> = output.lines().skip(1).collect();
        assert_eq!(
            lines,
            [r#"{"method":"notifications/x","params":1.0}"#, r#"{"result":{"v":1.00},"id":"c"}"#],
            "{output}"
        );
        assert_eq!(recorder.records()[0].outcome, CallOutcome::Ok);
    }

    #[tokio::test]
    async fn a_front_serves_local_clients_only() {
        let (hub, _server) = hub(HubOptions { max_message: 10_000, ..HubOptions::default() });
        let front = hub.serve_http(agent_kind()).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let post = |headers: &[(&str, &str)], body: &str| {
            let request = client.post(&front.url).body(body.to_owned());
            headers.iter().fold(request, |request, (key, value)| request.header(*key, *value)).send()
        };
        let ping = r#"{"id":1,"method":"ping"}"#;
        for (headers, body, status) in [
            (&[("host", "evil.example")][..], ping, 403),
            (&[("origin", "https://evil.example")], ping, 403),
            (&[("origin", "null")], ping, 403),
            (&[], ping, 400),
            (&[("mcp-session-id", "none")], ping, 404),
            (&[], "{", 400),
            (&[], &"x".repeat(20_000), 413),
        ] {
            assert_eq!(post(headers, body).await.unwrap().status().as_u16(), status, "{headers:?}");
        }
        // A client that does not know the path learns nothing, whatever it sends.
        let (base, _) = front.url.rsplit_once('/').unwrap();
        let (origin, capability) = base.rsplit_once('/').unwrap();
        let other: String = capability.chars().map(|c| if c == '0' { '1' } else { '0' }).collect();
        for path in ["/mcp", "/", &format!("/{other}/mcp"), &format!("/{capability}"), &format!("/{capability}/mcp/")] {
            for request in [client.post(format!("{origin}{path}")).body("{"), client.get(format!("{origin}{path}"))] {
                let answer = request.send().await.unwrap();
                assert_eq!((answer.status().as_u16(), answer.bytes().await.unwrap().len()), (404, 0), "{path}");
            }
        }
    }

    #[tokio::test]
    async fn a_plain_client_gets_plain_json() {
        let (hub, mut server) = hub(HubOptions::default());
        let front = hub.serve_http(agent_kind()).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let post = |session: &str, body: &'static str| {
            let request = client.post(&front.url).header("accept", "application/json").body(body);
            if session.is_empty() { request } else { request.header("mcp-session-id", session) }.send()
        };
        let (response, ()) = tokio::join!(post("", "{\"id\":1,\n\"method\":\"initialize\"}"), async {
            assert_eq!(server.next().await, r#"{"id":1, "method":"initialize"}"#);
            server.send(r#"{"id":1,"result":{}}"#).await;
        });
        let response = response.unwrap();
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(response.text().await.unwrap(), r#"{"id":1,"result":{}}"#);
        assert_eq!(post(&session, r#"{"method":"notifications/initialized"}"#).await.unwrap().status(), 202);
        server.next().await;
        // Sent while no stream is open, delivered when one is.
        server.send(r#"{"method":"notifications/x"}"#).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let stream = client.get(&front.url).header("mcp-session-id", &session);
        let mut stream = stream.send().await.unwrap();
        let event = stream.chunk().await.unwrap().unwrap();
        let event = str::from_utf8(&event).unwrap();
        assert!(event.starts_with("id: 0-"), "{event}");
        assert!(event.ends_with("\nevent: message\ndata: {\"method\":\"notifications/x\"}\n\n"), "{event}");
        let gone = client.delete(&front.url).header("mcp-session-id", &session).send().await.unwrap();
        assert_eq!(gone.status(), 200);
        assert_eq!(post(&session, r#"{"id":2,"method":"ping"}"#).await.unwrap().status(), 404);
        assert!(stream.chunk().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn every_call_over_http_is_recorded() {
        let (hub, mut server) = hub(HubOptions::default());
        let recorder = Recorder::new(Arc::default());
        let front = hub.serve_http(SessionKind::Agent(recorder.clone())).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let post = |session: &str, body: String| {
            let request = client.post(&front.url).header("accept", "application/json, text/event-stream").body(body);
            if session.is_empty() { request } else { request.header("mcp-session-id", session) }.send()
        };
        let (response, ()) = tokio::join!(post("", r#"{"id":1,"method":"initialize"}"#.into()), async {
            server.next().await;
            server.send(r#"{"id":1,"result":{}}"#).await;
        });
        let session = response.unwrap().headers()["mcp-session-id"].to_str().unwrap().to_owned();

        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = "7".repeat(400);
        for (id, odd) in [r#""a\ud83d""#, r#"{"\ud83d":1}"#, "1e999", &long, &deep].into_iter().enumerate() {
            let id = id + 10;
            let params = format!(r#"{{"arguments":{{"odd":{odd}}},"name":"delete"}}"#);
            let call = format!(r#"{{"id":{id},"method":"tools/call","params":{params}}}"#);
            let answer = format!(r#"{{"id":{id},"result":{{"content":[],"odd":{odd},"isError":true}}}}"#);
            let (response, ()) = tokio::join!(post(&session, call.clone()), async {
                assert_eq!(server.next().await, call);
                server.send(&answer).await;
            });
            assert_eq!(response.unwrap().text().await.unwrap(), answer);
            let record = recorder.records().pop().unwrap();
            assert_eq!((record.name.as_str(), record.outcome), ("delete", CallOutcome::ToolError), "{odd}");
        }

        for id in ["", r#""id":null,"#] {
            let call = format!(r#"{{{id}"method":"tools/call","params":{{"name":"delete"}}}}"#);
            assert_eq!(post(&session, call.clone()).await.unwrap().status(), 202);
            assert_eq!(server.next().await, call);
            let record = recorder.records().pop().unwrap();
            assert!(matches!(record.outcome, CallOutcome::ProtocolError { .. }), "{record:?}");
            assert_eq!(record.name, "delete");
        }
        for odd in ["null", "\"true\"", "1"] {
            let call = r#"{"id":3,"method":"tools/call","params":{"name":"delete"}}"#;
            let (response, ()) = tokio::join!(post(&session, call.into()), async {
                let id = server.next_json().await["id"].clone();
                server.send(&format!(r#"{{"id":{id},"result":{{"isError":{odd}}}}}"#)).await;
            });
            response.unwrap().text().await.unwrap();
            let record = recorder.records().pop().unwrap();
            assert!(matches!(record.outcome, CallOutcome::ProtocolError { .. }), "{odd}: {record:?}");
        }
        assert_eq!((recorder.records().len(), recorder.unreadable()), (10, 0));

        let call = r#"{"method":"tools/call","params":{"name":["delete"]}}"#;
        assert_eq!(post(&session, call.into()).await.unwrap().status(), 202);
        assert_eq!(recorder.unreadable(), 1);
    }

    #[tokio::test]
    async fn an_answer_without_preceding_messages_is_plain_json_otherwise_a_stream() {
        let (hub, mut server) = hub(HubOptions::default());
        let front = hub.serve_http(agent_kind()).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let post = |session: &str, accept: &str, body: &'static str| {
            let request = client.post(&front.url).header("accept", accept).body(body);
            if session.is_empty() { request } else { request.header("mcp-session-id", session) }.send()
        };
        let kind = |response: &reqwest::Response| response.headers()["content-type"].to_str().unwrap().to_owned();
        let both = "application/json, text/event-stream";
        let (response, ()) = tokio::join!(post("", both, r#"{"id":1,"method":"initialize"}"#), async {
            server.next().await;
            server.send(r#"{"id":1,"result":{}}"#).await;
        });
        let response = response.unwrap();
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(kind(&response), "application/json");
        assert_eq!(response.text().await.unwrap(), r#"{"id":1,"result":{}}"#);

        let (response, ()) = tokio::join!(post(&session, "text/event-stream", r#"{"id":2,"method":"ping"}"#), async {
            server.next().await;
            server.send(r#"{"id":2,"result":{}}"#).await;
        });
        let response = response.unwrap();
        assert_eq!(kind(&response), "text/event-stream");
        assert_eq!(response.text().await.unwrap(), "event: message\ndata: {\"id\":2,\"result\":{}}\n\n");

        let (response, ()) = tokio::join!(post(&session, both, r#"{"id":3,"method":"ping"}"#), async {
            server.next().await;
            server.send(r#"{"method":"notifications/x"}"#).await;
            server.send(r#"{"id":3,"result":{}}"#).await;
        });
        let response = response.unwrap();
        assert_eq!(kind(&response), "text/event-stream");
        let events = "event: message\ndata: {\"method\":\"notifications/x\"}\n\nevent: message\ndata: {\"id\":3,\"result\":{}}\n\n";
        let text = response.text().await.unwrap();
        let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        assert_eq!(ids.len(), 2);
        let without: String = text.split_inclusive('\n').filter(|line| !line.starts_with("id: ")).collect();
        assert_eq!(without, events);
    }

    /// Returns the value of the first field with this name in a chunk of a stream.
    fn field(piece: &[u8], name: &str) -> String {
        let text = str::from_utf8(piece).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
    }

    #[tokio::test]
    async fn a_reconnecting_client_receives_missed_messages() {
        let (hub, mut server) = hub(HubOptions::default());
        let front = hub.serve_http(agent_kind()).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let (response, ()) =
            tokio::join!(client.post(&front.url).body(r#"{"id":0,"method":"initialize"}"#).send(), async {
                server.next().await;
                server.send(r#"{"id":0,"result":{}}"#).await;
            });
        let session = response.unwrap().headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let call = |id: u32| {
            let body = format!(
                r#"{{"id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"progressToken":{id}}}}}}}"#
            );
            client.post(&front.url).header("mcp-session-id", &session).body(body).send()
        };
        let progress = |id: u32, done: u32| {
            format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{id},"progress":{done}}}}}"#)
        };
        let resume = |last: &str| {
            let request =
                client.get(&front.url).header("mcp-session-id", &session).header("accept", "text/event-stream");
            request.header("last-event-id", last).send()
        };
        // Two concurrent calls, each with its own stream, whose connections break.
        let mut lasts = Vec::new();
        for id in [1, 2] {
            let (response, ()) = tokio::join!(call(id), async {
                server.next().await;
                server.send(&progress(id, 1)).await;
            });
            let mut response = response.unwrap();
            lasts.push(field(&response.chunk().await.unwrap().unwrap(), "id"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.send(&progress(1, 2)).await;
        server.send(r#"{"id":2,"result":{"of":2}}"#).await;
        tokio::time::sleep(Duration::from_millis(50)).await;

        // First the messages sent in the meantime, and only those of this stream; then new ones; then the end.
        let mut first = resume(&lasts[0]).await.unwrap();
        let piece = first.chunk().await.unwrap().unwrap();
        assert!(field(&piece, "data").contains(r#""progress":2"#));
        server.send(r#"{"id":1,"result":{"of":1}}"#).await;
        let rest = first.text().await.unwrap();
        assert_eq!(field(rest.as_bytes(), "data"), r#"{"id":1,"result":{"of":1}}"#);
        let second = resume(&lasts[1]).await.unwrap().text().await.unwrap();
        assert_eq!(field(second.as_bytes(), "data"), r#"{"id":2,"result":{"of":2}}"#);
        // Resuming again from the same position returns the same: the messages are kept.
        assert_eq!(resume(&lasts[1]).await.unwrap().text().await.unwrap(), second);

        // The stream of messages that belong to no request is resumed in the same way.
        server.send(r#"{"method":"notifications/a"}"#).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut unasked = client.get(&front.url).header("mcp-session-id", &session).send().await.unwrap();
        let last = field(&unasked.chunk().await.unwrap().unwrap(), "id");
        drop(unasked);
        server.send(r#"{"method":"notifications/b"}"#).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let piece = resume(&last).await.unwrap().chunk().await.unwrap().unwrap();
        assert_eq!(field(&piece, "data"), r#"{"method":"notifications/b"}"#);
        assert_eq!(resume("nonsense").await.unwrap().status(), StatusCode::BAD_REQUEST);
    }

    #[tokio::test]
    async fn a_process_is_served_by_the_rules_of_the_stateless_revision() {
        let (hub, mut server) = hub(HubOptions::default());
        let front = hub.serve_http(agent_kind()).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let send = |method: &str, params: Value, headers: &[(&str, &str)]| {
            let mut request = client.post(&front.url).header("mcp-protocol-version", "2026-07-28");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.body(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()).send()
        };
        // The server declares which argument a header repeats.
        let schema = json!({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        let list = [("mcp-method", "tools/list")];
        let (response, ()) = tokio::join!(send("tools/list", json!({"_meta": meta}), &list), async {
            let request = server.next_json().await;
            server.reply(&request, json!({"tools": [{"name": "t", "inputSchema": schema}]})).await;
        });
        assert_eq!(response.unwrap().status(), 200);

        let call = json!({"name": "t", "arguments": {"region": "süd"}, "_meta": meta});
        let all = [("mcp-method", "tools/call"), ("mcp-name", "t"), ("mcp-param-region", "=?base64?c8O8ZA==?=")];
        let but = |at: usize, value: &'static str| {
            let mut headers = all;
            headers[at].1 = value;
            headers
        };
        // None of these requests reaches the server.
        for (code, params, headers) in [
            (-32602, json!({"name": "t"}), &all[..]),
            (
                -32602,
                json!({"name": "t", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
                &all[..],
            ),
            (-32020, call.clone(), &all[1..]),
            (-32020, call.clone(), &all[..1]),
            (-32020, call.clone(), &all[..2]),
            (-32020, call.clone(), &but(0, "tools/list")[..]),
            (-32020, call.clone(), &but(1, "u")[..]),
            (-32020, call.clone(), &but(2, "nord")[..]),
            (-32020, call.clone(), &but(2, "=?base64?c8O8Z===?=")[..]),
        ] {
            let response = send("tools/call", params.clone(), headers).await.unwrap();
            assert_eq!(response.status(), 400, "{params} {headers:?}");
            let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(code)), "{params} {headers:?}");
        }
        for (code, status) in [(-32601, 404), (-32022, 400), (-32021, 400), (-32602, 200), (-32603, 200)] {
            let (response, ()) = tokio::join!(send("tools/call", call.clone(), &all), async {
                let request = server.next_json().await;
                assert_eq!(request["params"], call);
                let id = &request["id"];
                server.send(&format!(r#"{{"id":{id},"error":{{"code":{code},"message":"no"}}}}"#)).await;
            });
            assert_eq!(response.unwrap().status(), status, "{code}");
        }
        // Notifications of a subscription go only to its subscriber.
        let listen = [("mcp-method", "subscriptions/listen")];
        let mut streams = Vec::new();
        for _ in 0..2 {
            let (response, id) = tokio::join!(send("subscriptions/listen", json!({"_meta": meta}), &listen), async {
                let id = server.next_json().await["id"].clone();
                let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
                let notification =
                    json!({"method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta}});
                server.send(&notification.to_string()).await;
                id
            });
            let mut response = response.unwrap();
            let event = response.chunk().await.unwrap().unwrap();
            assert!(field(&event, "data").contains(r#""io.modelcontextprotocol/subscriptionId":7"#), "{event:?}");
            streams.push((id, response));
        }
        assert_ne!(streams[0].0, streams[1].0);
        for at in [1, 0] {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": streams[at].0});
            let method = format!("notifications/{at}");
            server.send(&json!({"method": method, "params": {"_meta": meta}}).to_string()).await;
            let event = streams[at].1.chunk().await.unwrap().unwrap();
            assert!(field(&event, "data").contains(&method), "{event:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_pauses_a_stream_pauses_it_for_the_client() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/mcp", axum::routing::any(breaking)).with_state(Log::default());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let hub = Hub::start(at(&url), HubOptions::default()).await.unwrap();
        let front = hub.serve_http(agent_kind()).await.unwrap();
        let client = reqwest::Client::new();
        let initialize = r#"{"id":0,"method":"initialize"}"#;
        let session =
            client.post(&front.url).body(initialize).send().await.unwrap().headers()["mcp-session-id"].clone();
        let with = |request: reqwest::RequestBuilder| {
            request.header("mcp-session-id", &session).header("mcp-protocol-version", "2025-11-25")
        };
        let call = r#"{"id":1,"method":"tools/call","params":{"name":"t"}}"#;
        let begun = with(client.post(&front.url)).body(call).send().await.unwrap().text().await.unwrap();
        assert_eq!((field(begun.as_bytes(), "retry").as_str(), begun.contains("result")), ("5", false));
        let id = field(begun.as_bytes(), "id");
        let rest = with(client.get(&front.url)).header("last-event-id", id).send().await.unwrap().text().await.unwrap();
        assert!(rest.contains("notifications/half") && rest.contains("result"), "{rest}");
        // The server has no stream of messages that belong to no request.
        let refused = with(client.get(&front.url)).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn faults_of_a_server_are_reported() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let url = format!("http://{address}/mcp");
        let fails = async |url: &str| {
            let hub = Hub::start(at(url), HubOptions::default()).await?;
            hub.client(SessionKind::Own, ClientOptions::default()).await.map(|_| ())
        };
        assert_eq!(fails(&url).await.unwrap_err(), ServerError::ConnectionRefused { server: "web".into(), url });
        let error = fails("ftp://x").await.unwrap_err().to_string();
        assert_eq!(error, "could not reach `web`: ftp://x: neither http nor https");

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            axum::Router::new().route("/mcp", axum::routing::any(|| async { (StatusCode::UNAUTHORIZED, "no key") }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let error = fails(&format!("http://{address}/mcp")).await.unwrap_err().to_string();
        assert_eq!(error, "`web` answered with HTTP status 401: no key");
        // A server that does not speak TLS.
        let error = fails(&format!("https://{address}/mcp")).await.unwrap_err();
        assert!(matches!(error, ServerError::Tls { .. }), "{error:?}");
    }

    type Log = Arc<Mutex<Vec<String>>>;

    /// Forgets the session `s1` when a tool is called in it.
    async fn forgetful(State(log): State<Log>, headers: HeaderMap, body: String) -> impl IntoResponse {
        let message = serde_json::from_str::<Value>(&body).unwrap_or_default();
        let session = headers.get("mcp-session-id").map_or("-", |value| value.to_str().unwrap()).to_owned();
        let called = message["method"].as_str().unwrap_or("-").to_owned();
        let mut log = log.lock().unwrap();
        log.push(format!("{called} {session}"));
        let answer = |result: Value| axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        match (called.as_str(), session.as_str()) {
            ("initialize", _) => {
                let opened = log.iter().filter(|line| line.starts_with("initialize")).count();
                let result = json!({"protocolVersion": "2025-06-18", "serverInfo": {}, "capabilities": {"tools": {}}});
                ([("mcp-session-id", format!("s{opened}"))], answer(result)).into_response()
            }
            ("tools/call", "s1") => StatusCode::NOT_FOUND.into_response(),
            ("tools/call", _) => answer(json!({"content": []})).into_response(),
            ("-", _) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
            _ => StatusCode::ACCEPTED.into_response(),
        }
    }

    #[tokio::test]
    async fn a_session_that_the_server_dropped_is_reopened() {
        let log = Log::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/mcp", axum::routing::any(forgetful)).with_state(log.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let hub = Hub::start(at(&url), HubOptions::default()).await.unwrap();
        let client = hub.client(SessionKind::Own, ClientOptions::default()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(client.call_tool("t", json!({})).await.unwrap().raw, json!({"content": []}));
        }
        assert!(hub.notices().iter().any(|notice| notice.text.contains("forgotten the session")));
        let mut log = log.lock().unwrap().clone();
        log.retain(|line| !line.starts_with('-'));
        assert_eq!(
            log,
            [
                "initialize -",
                "notifications/initialized s1",
                "tools/call s1",
                "initialize -",
                "notifications/initialized s2",
                "tools/call s2",
                "tools/call s2",
            ]
        );
    }

    /// Interrupts the stream of every answer, and sends the rest when the client resumes it.
    async fn breaking(State(log): State<Log>, method: Method, headers: HeaderMap, body: String) -> impl IntoResponse {
        let text = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
        let called =
            serde_json::from_str::<Value>(&body).unwrap_or_default()["method"].as_str().unwrap_or("-").to_owned();
        log.lock().unwrap().push(format!(
            "{method} {called} {} {} {} {}",
            text("mcp-session-id"),
            text("mcp-protocol-version"),
            text("last-event-id"),
            text("x-api-key")
        ));
        let stream = |body: &'static str| {
            ([("content-type", "text/event-stream"), ("mcp-session-id", "s1")], body).into_response()
        };
        match (method.as_str(), called.as_str(), text("last-event-id").as_str()) {
            ("POST", "initialize", _) => stream(
                "data: {\"id\":0,\"result\":{\"protocolVersion\":\"2025-06-18\",\n\
                 data: \"serverInfo\":{},\"capabilities\":{\"tools\":{}}}}\n\n",
            ),
            ("POST", "tools/call", _) => stream("id: e1\nretry: 5\ndata:\n\n"),
            ("GET", _, "e1") => stream("id: e2\ndata: {\"method\":\"notifications/half\"}\n\n"),
            ("GET", _, "e2") => stream("data: {\"id\":1,\"result\":{\"content\":[]}}\n\n"),
            ("POST", ..) => StatusCode::ACCEPTED.into_response(),
            ("DELETE", ..) => StatusCode::OK.into_response(),
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }

    #[tokio::test]
    async fn a_broken_stream_is_resumed() {
        let log = Log::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/mcp", axum::routing::any(breaking)).with_state(log.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let hub = Hub::start(at(&url), HubOptions::default()).await.unwrap();
        let recorder = Recorder::default();
        let client = hub.client(SessionKind::Agent(recorder.clone()), ClientOptions::default()).await.unwrap();
        let mut notifications = client.notifications();
        assert_eq!(client.call_tool("t", json!({})).await.unwrap().raw, json!({"content": []}));
        assert_eq!(notifications.recv().await.unwrap().method, "notifications/half");
        assert_eq!(recorder.records()[0].outcome, CallOutcome::Ok);
        assert!(!format!("{:?}", recorder.records()).contains("s3cret"));
        drop(client);
        hub.close().await;
        let mut log = log.lock().unwrap().clone();
        // The stream of messages that belong to no request is opened at an arbitrary time.
        log.retain(|line| line != "GET - s1 2025-06-18 - s3cret-key");
        assert_eq!(
            log,
            [
                "POST initialize - - - s3cret-key",
                "POST notifications/initialized s1 2025-06-18 - s3cret-key",
                "POST tools/call s1 2025-06-18 - s3cret-key",
                "GET - s1 2025-06-18 e1 s3cret-key",
                "GET - s1 2025-06-18 e2 s3cret-key",
                "DELETE - s1 2025-06-18 - s3cret-key",
            ]
        );
    }

    /// A server that answers each message by fixed rules, and logs the headers.
    async fn opinionated(
        State(log): State<Log>,
        method: Method,
        headers: HeaderMap,
        body: String,
    ) -> impl IntoResponse {
        let message: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let kind = message["method"].as_str().unwrap_or_default();
        let header = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
        let seen = ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-x"].map(header).join(" ");
        log.lock().unwrap().push(format!("{method} {kind} {seen}"));
        let id = &message["id"];
        let of = |id: &serde_json::Value, code: i64| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}});
        let (status, content, body) = match kind {
            "initialize" => (200, "application/json", json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string()),
            "removed" => (404, "application/json", of(id, -32601).to_string()),
            "expired" => (404, "application/json", of(&serde_json::Value::Null, -32001).to_string()),
            "unsupported" => (400, "text/plain; charset=utf-8", "Bad Request: unsupported version".to_owned()),
            "denied" => (401, "text/html", "<p>who?</p>".to_owned()),
            "broken" => (500, "application/json", "{".to_owned()),
            "notifications/refused" => (400, "application/json", of(&serde_json::Value::Null, -32600).to_string()),
            "notifications/plain" => (204, "text/plain", String::new()),
            kind if kind.starts_with("notifications/") => (202, "text/plain", String::new()),
            _ => (200, "application/json", json!({"jsonrpc": "2.0", "id": id, "result": {"echo": seen}}).to_string()),
        };
        let status = StatusCode::from_u16(status).unwrap();
        (status, [("content-type", content), ("www-authenticate", "Bearer scope=\"x\""), ("mcp-extra", "e")], body)
    }

    #[tokio::test]
    async fn a_front_relays_the_answers_of_an_http_server() {
        let log = Log::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let direct = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/mcp", axum::routing::any(opinionated)).with_state(log.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let hub = Hub::start(at(&direct), HubOptions::default()).await.unwrap();
        let front = hub.serve_http(agent_kind()).await.unwrap();
        let client = reqwest::Client::new();
        let methods = [
            "tools/list",
            "removed",
            "expired",
            "unsupported",
            "denied",
            "broken",
            "notifications/refused",
            "notifications/plain",
            "notifications/x",
        ];
        let settings: [&[(&str, &str)]; 3] = [
            &[],
            &[("mcp-protocol-version", "1999-01-01")],
            &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "m"), ("mcp-name", "n"), ("mcp-param-x", "y")],
        ];
        for session in [false, true] {
            let mut id = String::new();
            if session {
                let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
                let response = client.post(&front.url).body(body).send().await.unwrap();
                id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
            }
            for headers in settings {
                for method in methods {
                    let id_member = if method.starts_with("notifications/") { "" } else { "\"id\":\"a\"," };
                    let body = format!(r#"{{"jsonrpc":"2.0",{id_member}"method":"{method}"}}"#);
                    let mut said = Vec::new();
                    for url in [&direct, &front.url] {
                        log.lock().unwrap().clear();
                        let mut request = client.post(url).header("accept", "application/json, text/event-stream");
                        for (name, value) in headers {
                            request = request.header(*name, *value);
                        }
                        if session {
                            request = request.header("mcp-session-id", &id);
                        }
                        let response = request.body(body.clone()).send().await.unwrap();
                        let status = response.status();
                        let header =
                            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
                        let kind = header("content-type").filter(|_| !status.is_success() || !id_member.is_empty());
                        let told = (status, kind, header("www-authenticate"), header("mcp-extra"));
                        said.push((told, response.text().await.unwrap(), log.lock().unwrap().clone()));
                    }
                    assert_eq!(said[0], said[1], "{method} {headers:?} {session}");
                }
            }
        }
        let response = client.get(&front.url).header("mcp-protocol-version", "2026-07-28").send().await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap())
        );
        let response = client.post(&front.url).body("no JSON").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert!(response.text().await.unwrap().contains("-32700"));
    }
}

//! The hub, its fronts and its client, against servers that the tests play themselves, small shell scripts, and rmcp.
#![cfg(feature = "run")]

#[path = "support/mcp.rs"]
mod support;

use std::{sync::Arc, time::Duration};

use gevals::{
    mcp::{CallKind, CallOutcome, ClientOptions, Direction, Hub, HubOptions, Recorder, ServerError, SessionKind},
    secrets::Secrets,
};
use serde_json::{Value, json};
use support::{Agent, FakeServer, agent_kind, hub, shell};

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
    assert_eq!(hub.server().unwrap()["vendor"], json!([1.0]));

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
    // This one has to wait for the answer to the first.
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
async fn a_refused_handshake_is_tried_again_for_the_next() {
    let (hub, mut server) = hub(HubOptions::default());
    let mut first = Agent::on(&hub, SessionKind::Own);
    let mut second = Agent::on(&hub, SessionKind::Own);
    first.send(r#"{"id":0,"method":"initialize","params":{"v":1}}"#).await;
    server.next().await;
    second.send(r#"{"id":0,"method":"initialize","params":{"v":2}}"#).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.send(r#"{"id":0,"error":{"code":-1,"message":"no"}}"#).await;
    assert_eq!(first.next_json().await["error"]["code"], -1);
    assert_eq!(server.next_json().await["params"]["v"], 2);
    server.send(r#"{"id":0,"result":{}}"#).await;
    assert_eq!(second.next().await, r#"{"id":0,"result":{}}"#);
}

#[tokio::test]
async fn ids_and_tokens_of_two_sessions_do_not_mix() {
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
    // Nothing but the id and the token differs.
    assert_eq!(seen.replace(&id.to_string(), "7").replace(token.as_str().unwrap(), "t"), request("two"));

    let progress = |token: &Value| {
        format!(r#"{{"method":"notifications/progress", "params":{{"progressToken":{token} ,"progress":1}}}}"#)
    };
    server.send(&progress(token)).await;
    server.send(&progress(&json!("t"))).await;
    assert_eq!(two.next().await, progress(&json!("t")));
    assert_eq!(one.next().await, progress(&json!("t")));

    // Cancelling means one's own request.
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
async fn a_server_asks_the_agent_that_works() {
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
    // Nobody else may answer.
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
async fn a_session_that_ends_gives_its_calls_up() {
    let (hub, mut server) = hub(HubOptions::default());
    let recorder = Recorder::default();
    let mut agent = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    agent.send(r#"{"id":1,"method":"tools/call","params":{"name":"slow"}}"#).await;
    server.next().await;
    assert_eq!(recorder.running(), 1);
    drop(agent);
    assert_eq!((recorder.running(), &recorder.records()[0].outcome), (0, &CallOutcome::Cancelled));
    assert_eq!(server.next_json().await["method"], "notifications/cancelled");
    // The late answer finds nobody, and its id is still known as taken.
    let mut next = Agent::on(&hub, SessionKind::Agent(recorder.clone()));
    next.send(r#"{"id":1,"method":"tools/call","params":{"name":"quick"}}"#).await;
    let id = server.next_json().await["id"].clone();
    assert_ne!(id, 1);
    server.send(r#"{"id":1,"result":{"late":true}}"#).await;
    server.send(&format!(r#"{{"id":{id},"result":{{"late":false}}}}"#)).await;
    assert_eq!(next.next_json().await, json!({"id": 1, "result": {"late": false}}));
}

#[tokio::test]
async fn rubbish_is_skipped_and_then_fatal() {
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
async fn a_message_without_end_breaks_the_connection() {
    let (hub, mut server) = hub(HubOptions { max_message: 100_000, ..HubOptions::default() });
    let mut agent = Agent::on(&hub, agent_kind());
    let fits = format!(r#"{{"method":"{}"}}"#, "x".repeat(90_000));
    server.send(&fits).await;
    assert_eq!(agent.next().await, fits);
    agent.send(r#"{"id":1,"method":"tools/call"}"#).await;
    server.next().await;
    let endless = tokio::spawn(async move { server.send(&"x".repeat(10_000_000)).await });
    let message = agent.next_json().await["error"]["message"].to_string();
    assert!(message.contains("more than 100000 bytes"), "{message}");
    endless.abort();
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up() {
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
    let text = format!("{:?}{:?}", recorder.records(), hub.notices());
    assert!(text.contains("a ***") && !text.contains("hunter2") && !text.contains("aHVud"), "{text}");
    assert_eq!(
        *seen.lock().unwrap(),
        [(Direction::ToServer, request.to_owned()), (Direction::FromServer, answer.to_owned())]
    );
}

#[tokio::test]
async fn ten_thousand_odd_messages_arrive_as_they_were_sent() {
    let (hub, server) = hub(HubOptions::default());
    let mut agent = Agent::on(&hub, agent_kind());
    let mut random = fastrand::Rng::with_seed(7);
    let mut sent = Vec::new();
    for number in 0..10_000 {
        // Every third message answers a request that is under way by then.
        if number % 3 == 0 {
            agent.send(&format!(r#"{{"id":{number},"method":"x"}}"#)).await;
        }
        sent.push(support::odd_message(&mut random, number, number % 3 == 0));
    }
    let FakeServer { mut reader, mut writer } = server;
    let expected = sent.clone();
    let pump = tokio::spawn(async move {
        for message in sent {
            support::write_line(&mut writer, &message).await;
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

    #[tokio::test]
    async fn a_missing_command_is_named() {
        let error = Hub::start(support::stdio("no-such-server-here", &[]), HubOptions::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "could not start `srv`: no such command `no-such-server-here`");
    }

    #[tokio::test]
    async fn a_server_that_exits_at_once_says_why() {
        let options = HubOptions { secrets: Arc::new(Secrets::new(["s3cret-token"])), ..HubOptions::default() };
        let hub = Hub::start(shell("echo 'bad token s3cret-token' >&2; exit 3"), options).await.unwrap();
        let error = hub.client(SessionKind::Own, ClientOptions::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "`srv` exited with status 3:\nbad token ***");
        assert_eq!(hub.exited().as_deref(), Some("exited with status 3"));
        assert_eq!(hub.stderr_tail(), "bad token ***\n");
    }

    #[tokio::test]
    async fn a_server_that_dies_mid_call_loses_it() {
        let script = r#"read a; echo '{"id":0,"result":{}}'; read b; read c; kill -9 $$"#;
        let hub = Hub::start(shell(script), HubOptions::default()).await.unwrap();
        let recorder = Recorder::default();
        let client = hub.client(SessionKind::Agent(recorder.clone()), ClientOptions::default()).await.unwrap();
        let error = client.call_tool("t", json!({})).await.unwrap_err();
        assert_eq!(error.to_string(), "`srv` was killed by signal 9 (SIGKILL) (-32000)");
        assert_eq!(recorder.records()[0].outcome, CallOutcome::Lost);
        // And so is whatever comes later.
        assert_eq!(client.call_tool("t", json!({})).await.unwrap_err(), error);
    }

    #[tokio::test]
    async fn nothing_is_left_running() {
        for drop_it in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("pids");
            // Neither the shell nor its child ends when its input does, or when it is asked to.
            let script = format!(
                r#"trap '' TERM; sleep 1000 & echo $$ $! > {0}.new; mv {0}.new {0}; while :; do sleep 1; done"#,
                file.display()
            );
            let options = HubOptions { close_grace: Duration::from_millis(100), ..HubOptions::default() };
            let hub = Hub::start(shell(&script), options).await.unwrap();
            let pids = loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if let Ok(text) = std::fs::read_to_string(&file) {
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
                while rustix::process::test_kill_process(pid).is_ok() && support::is_running(pid) {
                    tries += 1;
                    assert!(tries < 200, "{pid:?} still runs");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

//! What `gevals prove` finds in the suites of `prove/` and of the quickstart: hundreds of mutants, of which nearly all are noticed. Of
//! each that is not the missing check is named, and nothing is left behind.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use serde_json::Value;
use world::World;

#[test]
fn hundreds_of_mutants_are_noticed_or_the_missing_check_is_named() {
    let world = World::new(&[]);
    world.copy("tests/prove", "p");
    world.copy("examples/quickstart", "q");
    let (mut noticed, mut all, mut tasks) = (0, 0, 0);
    let mut faults = Vec::new();
    // Each in the time that a command of a test has.
    for (suite, part) in
        [("p", "notebook"), ("p", "append"), ("p", "rename"), ("p", "merge"), ("p", "review"), ("q", ".")]
    {
        let ran = world.run(&["prove", suite, "--run", part, "--format", "json"]).expect(0, &[]);
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        let number = |value: &Value, key: &str| value[key].as_u64().unwrap();
        (noticed, all) = (noticed + number(&told, "noticed"), all + number(&told, "mutants"));
        assert_eq!(told["unseen"], Value::Array(Vec::new()), "{suite} {part}");
        for task in told["tasks"].as_array().unwrap() {
            tasks += 1;
            let name = task["task"].as_str().unwrap();
            // A suite that is made to notice.
            if suite == "p" && number(task, "noticed") * 10 < number(task, "mutants") * 9 {
                faults.push(format!("{name}: {} of {} noticed", task["noticed"], task["mutants"]));
            }
            for tried in task["tried"].as_array().unwrap() {
                let mutant = tried["mutant"].as_str().unwrap();
                let missed = tried["noticed"] == false && tried["verdict"] == "passed";
                if missed
                    && tried["cure"]
                        .as_str()
                        .is_none_or(|cure| !cure.contains("verify step") && !cure.contains("assertion"))
                {
                    faults.push(format!("{name}: {mutant}: no check is named"));
                }
                // It breaks what needs its answer; nothing else does.
                let of_answer = [" fails", "gets an empty answer", "gets the answer of", "has another"];
                if tried["verdict"] == "broken" && !of_answer.iter().any(|part| mutant.contains(part)) {
                    faults.push(format!("{name}: {mutant}: it does not count"));
                }
                let cleans = suite == "p" || name == "write-note";
                if cleans && tried["left"] != Value::Array(Vec::new()) {
                    faults.push(format!("{name}: {mutant}: it leaves {}", tried["left"]));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    println!("{noticed} of {all} mutants of {tasks} tasks are noticed");
    assert!(tasks >= 24 && all >= 400 && noticed * 10 >= all * 9, "{noticed} of {all}, {tasks} tasks");
}

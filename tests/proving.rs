//! The results of `gevals prove` for the suites in `prove/` and for the quickstart: hundreds of mutants, nearly all of
//! which are detected. For each of the others, the missing check is named, and nothing is left behind.
#![cfg(all(feature = "run", target_os = "linux"))]

use serde_json::Value;

use crate::support::world::World;

#[test]
fn mutants_are_detected_or_the_missing_check_is_named() {
    let world = World::new(&[]);
    world.copy("tests/prove", "p");
    world.copy("examples/quickstart", "q");
    let (mut noticed, mut all, mut tasks) = (0, 0, 0);
    let mut faults = Vec::new();
    // Each part runs within the time limit for commands in tests.
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
            // A suite written so that it detects mutants.
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
                // A mutant can break a step that requires the answer; other mutants cannot.
                let of_answer = [" fails", "gets an empty answer", "gets the answer of", "has a different"];
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

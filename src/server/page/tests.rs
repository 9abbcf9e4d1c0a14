//! The pages of some states: their bytes, their words, and that nothing in them is markup but what
//! was written as markup.

mod samples;

use super::*;
use samples::{busy, empty, failing, of_a_task, worst, worst_task};

const WORD: &str = "0123456789abcdef0123456789abcdef";

fn operator() -> May {
    May::Operate(WORD.to_owned())
}

/// Less than 60 KiB, whatever happens.
const BYTES_MAX: usize = 60 << 10;

#[test]
fn a_page_has_less_than_60_kib_in_its_busiest_and_worst_state() {
    for (name, overview) in [("busy", busy()), ("failing", failing()), ("worst", worst())] {
        let page = sections::overview(&overview);
        assert!(page.len() < BYTES_MAX, "{name} has {} bytes", page.len());
    }
    for page in [of_a_task(), worst_task()] {
        let page = task::page(&page, &operator());
        assert!(page.len() < BYTES_MAX, "a task has {} bytes", page.len());
    }
}

#[test]
fn what_does_not_fit_is_counted_with_the_command_that_shows_it() {
    let page = sections::overview(&worst());
    for command in [
        "midwatch list --status RUNNING",
        "midwatch schedule list",
        "midwatch type list",
        "midwatch alerts",
    ] {
        assert!(page.contains(&format!(" more: <code>{command}</code>")), "{command}");
    }
}

#[test]
fn the_first_thing_said_is_how_it_is_and_each_point_brings_its_command() {
    let page = sections::overview(&failing());
    assert!(page.contains("<span class=\"bad\">CRITICAL.</span> 4 things need a person now"));
    assert!(page.contains("<code>midwatch show 88213</code> <code>midwatch retry 88213</code>"));
    assert!(page.contains("<title>CRITICAL (4) – midwatch on relay-7</title>"));
    let page = sections::overview(&empty());
    assert!(page.contains("<span class=\"ok\">OK.</span> All is well on relay-7"));
    assert!(page.contains("No task yet: <code>midwatch submit TYPE"));
    assert!(page.contains("No schedule: <code>midwatch schedule add"));
}

#[test]
fn a_page_is_whole_without_its_script_and_has_no_style_but_its_own() {
    for page in [sections::overview(&busy()), task::page(&of_a_task(), &operator())] {
        let (before, script) = page.split_once("<script>").unwrap();
        assert!(before.contains("Made at ") && before.contains("</footer>"));
        assert!(script.ends_with("</script></body></html>\n"));
        assert!(!page.contains(" style="), "the policy allows none");
        assert!(!before.contains(" onclick") && !before.contains("javascript:"));
        assert!(!before.contains("http://") && !before.contains("https://"));
    }
}

/// Everything that opens is closed in its order, so the browser reads what was meant.
#[test]
fn the_markup_of_every_page_is_well_formed() {
    let look = May::Look;
    let pages = [empty(), busy(), failing(), worst()].map(|state| sections::overview(&state));
    let tasks = [task::page(&of_a_task(), &operator()), task::page(&worst_task(), &operator())];
    let looked = task::page(&of_a_task(), &look);
    for page in pages.iter().chain(&tasks).chain([&looked]) {
        let content = page.split("<style>").next().unwrap().to_owned()
            + page.split("</style>").nth(1).unwrap().split("<script>").next().unwrap();
        let mut open = Vec::new();
        for piece in content.split('<').skip(1) {
            let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("<{piece}"));
            let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "</{name}>");
            } else if !tag.ends_with('/')
                && !["!doctype", "meta", "link", "br", "input"].contains(&name)
            {
                open.push(name.to_owned());
            }
        }
        assert_eq!(open, ["html", "body"], "the script and what ends with it was left out");
        let ids: Vec<_> = content.split(" id=\"").skip(1).map(|at| at.split('"').next()).collect();
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "an id stands twice: {ids:?}");
    }
}

#[test]
fn alerts_say_who_knows_of_them_and_how_to_say_it_and_are_not_seen_where_there_is_none() {
    let page = sections::overview(&failing());
    let section = page.split("<section id=\"alerts\"").nth(1).unwrap();
    let section = section.split("</section>").next().unwrap();
    let text = |(tag, text): (&str, &str)| match tag {
        "tr" | "small" | "p class=\"more\"" => format!("\n{text}"),
        _ if text.is_empty() => String::new(),
        _ => format!(" {text}"),
    };
    let pieces = section.split('<').filter_map(|piece| piece.split_once('>'));
    let text: String = pieces.map(text).collect();
    expect_test::expect![[r#"
         Alerts (3)
         What is wrong Since
         warning  11 tasks of type fetch_data failed one after the other; task 88213 fetch_data is DEAD after 6 attempts: connection refused (retries_used_up)
        said 11 times, last  22 min ago , not acknowledged:  midwatch alerts ack 35 1 h ago
         warning  worker relay-7/4003 was silent for too long
        comes and goes, said 4 times, last  50 min ago , acknowledged by uid 1000  2 h ago 2 h ago
         info  the wall clock was put forward by 3 s
        not acknowledged:  midwatch alerts ack 36 10 min ago
         over  only 2.9 MiB are free on the data directory&#39;s disk 21 min ago
        1 more is told at the top of the page."#]].assert_eq(&text);
    assert!(section.contains("<code>midwatch alerts ack 35</code>"));
    let page = sections::overview(&empty());
    assert!(page.contains("<section id=\"alerts\" data-live hidden></section>"));
}

#[test]
fn only_who_may_operate_finds_buttons_and_each_form_shows_our_word() {
    let page = task::page(&of_a_task(), &May::Look);
    assert!(!page.contains("<form") && !page.contains("<button"));
    let page = task::page(&of_a_task(), &operator());
    assert!(page.contains("<form method=\"post\" action=\"/tasks/88231/pause\">"));
    assert_eq!(page.matches("<form").count(), page.matches(WORD).count());
}

#[test]
fn a_form_without_our_word_or_from_elsewhere_is_not_ours() {
    let mut headers = HeaderMap::new();
    let form = format!("word={WORD}");
    assert!(!is_ours(&headers, form.as_bytes(), WORD), "a browser says from where it comes");
    headers.insert(header::ORIGIN, HeaderValue::from_static("http://localhost"));
    assert!(is_ours(&headers, form.as_bytes(), WORD));
    for form in
        ["", "word=", "word=0123", "other=1", &format!("word={WORD}0"), &form.replace('f', "e")]
    {
        assert!(!is_ours(&headers, form.as_bytes(), WORD), "{form}");
    }
}

#[test]
fn the_policy_lets_a_browser_run_this_script_and_nothing_else() {
    let policy = layout::policy();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
}

#[test]
fn while_the_engine_does_not_answer_the_page_says_so_and_nothing_else() {
    let page = sections::stalled(&failing().status, failing().now);
    assert!(page.contains("CRITICAL.</span> 4 things need a person now"));
    assert!(page.contains("shown again once the engine answers"));
    assert!(!page.contains("id=\"running\"") && !page.contains("id=\"figures\""));
}

/// Writes the pages of all states into a directory, for `tools/screens.sh`.
#[test]
#[expect(clippy::disallowed_methods, reason = "only where somebody asks for it")]
fn pages_are_written_where_somebody_wants_to_look_at_them() {
    let Ok(dir) = std::env::var("MIDWATCH_PAGES") else { return };
    let write = |name: &str, page: String| {
        std::fs::write(std::path::Path::new(&dir).join(name), page).unwrap();
    };
    write("empty.html", sections::overview(&empty()));
    write("busy.html", sections::overview(&busy()));
    write("failing.html", sections::overview(&failing()));
    write("worst.html", sections::overview(&worst()));
    write("task.html", task::page(&of_a_task(), &operator()));
    write("worst-task.html", task::page(&worst_task(), &operator()));
}

//! What is looked at besides what the kernel sees.

use super::watch::{Wanted, take_points};
use crate::api::Attention;
use crate::kernel::alerts::{Grade, Rule};

#[test]
fn points_are_alerts_by_their_key_but_for_those_that_the_kernel_raises() {
    let point = |critical, alert: &str| Attention {
        critical,
        what: "so it is".to_owned(),
        commands: Vec::new(),
        alert: Some(alert.to_owned()),
    };
    let mut wanted = Wanted::new();
    let points = [
        point(false, "memory_growing worker w1"),
        point(true, "disk_low disk"),
        point(false, "worker_lost w1"),
        point(false, "of_a_later_version x"),
    ];
    take_points(&mut wanted, &points);
    let found: Vec<_> = wanted.into_iter().map(|(key, (grade, _))| (key, grade)).collect();
    assert_eq!(
        found,
        [
            ((Rule::DiskLow, "disk".into()), Grade::Critical),
            ((Rule::MemoryGrowing, "worker w1".into()), Grade::Warning),
        ]
    );
}

//! Users and groups, from `/etc/passwd` and `/etc/group`: a static binary has no other way.

use std::fs;
use std::path::PathBuf;

/// As whom a handler runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// The user's name and home directory, where it has an entry.
    pub entry: Option<(String, PathBuf)>,
}

/// The user with that name or number, in its own group and in all that list it; with `group`,
/// in that one first of all. Says in words who does not exist.
pub fn identity(user: &str, group: Option<&str>) -> Result<Identity, String> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    identity_in(&read("/etc/passwd"), &read("/etc/group"), user, group)
}

/// The group with that name, or that number.
pub fn group(name: &str) -> Option<u32> {
    group_in(&fs::read_to_string("/etc/group").unwrap_or_default(), name)
}

fn identity_in(
    users: &str,
    groups: &str,
    user: &str,
    group: Option<&str>,
) -> Result<Identity, String> {
    let entry = |wanted: &dyn Fn(&[&str]) -> bool| {
        let lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let mut fitting = lines.filter(|fields| wanted(fields));
        fitting.find_map(|fields| {
            let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
            let home = fields.get(5).copied().unwrap_or("/");
            let name = (*fields.first()?).to_owned();
            Some((number(2)?, number(3)?, (name, PathBuf::from(home))))
        })
    };
    let by_number = |uid: u32| entry(&|f| f.get(2).and_then(|n| n.parse().ok()) == Some(uid));
    let found =
        entry(&|fields| fields.first() == Some(&user)).or_else(|| by_number(user.parse().ok()?));
    let gid = match group {
        Some(name) => {
            let found = group_in(groups, name);
            Some(found.ok_or_else(|| format!("there is no group `{name}` in /etc/group"))?)
        }
        None => None,
    };
    match (found, user.parse::<u32>()) {
        (Some((uid, own, entry)), _) => {
            let gid = gid.unwrap_or(own);
            let mut further: Vec<u32> = listing(groups, &entry.0).filter(|it| *it != gid).collect();
            further.extend((own != gid).then_some(own));
            Ok(Identity { uid, gid, groups: further, entry: Some(entry) })
        }
        (None, Ok(uid)) => {
            let gid = gid.ok_or_else(|| {
                format!("user {uid} has no entry in /etc/passwd, so its `group` must be named")
            })?;
            Ok(Identity { uid, gid, groups: Vec::new(), entry: None })
        }
        (None, Err(_)) => Err(format!("there is no user `{user}` in /etc/passwd")),
    }
}

/// The groups that list a user.
fn listing<'g>(groups: &'g str, user: &'g str) -> impl Iterator<Item = u32> + use<'g> {
    groups.lines().filter_map(move |line| {
        let mut fields = line.split(':').skip(2);
        let gid = fields.next()?.parse().ok()?;
        fields.next()?.split(',').any(|name| name.trim() == user).then_some(gid)
    })
}

fn group_in(groups: &str, name: &str) -> Option<u32> {
    let by_name = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let gid = fields.nth(1)?.parse().ok()?;
        found.then_some(gid)
    });
    by_name.or_else(|| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "root:x:0:\nops:x:50:ada, bob\nempty:x:51:\nada:x:1001:\nbroken\n";
    const USERS: &str = "root:x:0:0::/root:/bin/sh\nada:x:1001:1001:A:/home/ada:/bin/sh\nbad\n";

    #[test]
    fn a_group_is_found_by_name_or_number() {
        let gid = |name| group_in(GROUPS, name);
        assert_eq!(gid("ops"), Some(50));
        assert_eq!(gid("77"), Some(77));
        assert_eq!(gid("op"), None);
        assert_eq!(gid("broken"), None);
    }

    #[test]
    fn a_user_comes_with_its_groups_and_its_home() {
        let of = |user, group| identity_in(USERS, GROUPS, user, group);
        let home = || Some(("ada".to_owned(), PathBuf::from("/home/ada")));
        let ada = Identity { uid: 1001, gid: 1001, groups: vec![50], entry: home() };
        assert_eq!(of("ada", None), Ok(ada.clone()));
        assert_eq!(of("1001", None), Ok(ada));
        let in_ops = Identity { uid: 1001, gid: 50, groups: vec![1001], entry: home() };
        assert_eq!(of("ada", Some("ops")), Ok(in_ops));
        let nobody = Identity { uid: 4242, gid: 51, groups: vec![], entry: None };
        assert_eq!(of("4242", Some("empty")), Ok(nobody));
        for (user, group, why) in [
            ("eve", None, "there is no user `eve` in /etc/passwd"),
            ("ada", Some("op"), "there is no group `op` in /etc/group"),
            ("4242", None, "user 4242 has no entry in /etc/passwd, so its `group` must be named"),
        ] {
            assert_eq!(of(user, group).unwrap_err(), why);
        }
    }
}

//! Every attempt, by its stable name.

use super::Needs::{Bombs, Budget, Inside, Nothing};
use super::{
    Attempt, budgets, devices, doors, files, identity, kernel, mounts, nested, network, pid_one,
    proc_and_sys, processes,
};

macro_rules! attempts {
    ($($name:literal $needs:ident $run:expr;)*) => {
        &[$(Attempt { name: $name, needs: $needs, run: $run }),*]
    };
}

pub(crate) const ATTEMPTS: &[Attempt] = attempts! {
    "identity/capabilities" Nothing identity::capabilities;
    "identity/regain-capabilities" Nothing identity::regain_capabilities;
    "identity/seccomp-is-on" Nothing identity::seccomp_is_on;
    "identity/seccomp-stays" Nothing identity::seccomp_stays;
    "identity/id-maps" Nothing identity::id_maps;
    "identity/ids-beyond-the-map" Nothing identity::ids_beyond_the_map;
    "identity/hard-limits" Nothing identity::hard_limits;
    "identity/priorities" Nothing identity::priorities;
    "identity/memory-layout" Nothing identity::memory_layout;
    "identity/never-out-of-memory" Nothing identity::never_out_of_memory;

    "processes/see-host-process" Nothing processes::see_host_process;
    "processes/signal-host-process" Nothing processes::signal_host_process;
    "processes/see-kernel-threads" Nothing processes::see_kernel_threads;
    "processes/inherited-descriptors" Nothing processes::inherited_descriptors;
    "processes/inherited-directory" Nothing processes::inherited_directory;
    "processes/files-of-processes" Nothing processes::files_of_processes;
    "processes/host-name" Nothing processes::host_name;
    "processes/set-host-name" Nothing processes::set_host_name;

    "pid-1/read-environment" Inside pid_one::read_environment;
    "pid-1/read-memory" Inside pid_one::read_memory;
    "pid-1/read-program" Inside pid_one::read_program;
    "pid-1/overwrite-program" Inside pid_one::overwrite_program;
    "pid-1/process-vm" Inside pid_one::process_vm;
    "pid-1/trace" Inside pid_one::trace;
    "pid-1/steal-descriptor" Inside pid_one::steal_descriptor;
    "pid-1/descriptors" Inside pid_one::descriptors;
    "pid-1/root-and-directory" Inside pid_one::root_and_directory;
    "pid-1/kill" Inside pid_one::kill;
    "pid-1/join-namespaces" Inside pid_one::join_namespaces;
    "pid-1/out-of-memory-score" Inside pid_one::out_of_memory_score;

    "files/see-host-file" Nothing files::see_host_file;
    "files/see-layers" Nothing files::see_layers;
    "files/host-sockets" Nothing files::host_sockets;
    "files/trusted-attributes" Nothing files::trusted_attributes;
    "files/capabilities-for-host-root" Nothing files::capabilities_for_host_root;
    "files/program-with-capabilities" Nothing files::program_with_capabilities;
    "files/setuid-program" Nothing files::setuid_program;
    "files/chroot-out" Nothing files::chroot_out;
    "files/open-by-handle" Nothing files::open_by_handle;

    "devices/make" Nothing devices::make_devices;
    "devices/make-whiteout" Nothing devices::make_whiteout;
    "devices/only-harmless" Nothing devices::devices;
    "devices/dev-is-small" Nothing devices::dev_is_small;

    "doors/links" Inside doors::links_and_renames;
    "doors/change" Inside doors::change_doors;
    "doors/runner-program" Inside doors::runner_program;
    "doors/write-to-usr" Nothing doors::write_to_usr;
    "doors/link-hears-nobody-else" Inside network::link_door;

    "proc-and-sys/kernel-memory" Nothing proc_and_sys::kernel_memory;
    "proc-and-sys/kernel-messages" Nothing proc_and_sys::kernel_messages;
    "proc-and-sys/kernel-keys" Nothing proc_and_sys::kernel_keys;
    "proc-and-sys/tell-tales" Nothing proc_and_sys::tell_tales;
    "proc-and-sys/sysrq" Nothing proc_and_sys::sysrq;
    "proc-and-sys/kernel-settings" Nothing proc_and_sys::kernel_settings;
    "proc-and-sys/kernel-helpers" Nothing proc_and_sys::kernel_helpers;
    "proc-and-sys/write-to-sys" Nothing proc_and_sys::write_to_sys;
    "proc-and-sys/control-groups" Nothing proc_and_sys::control_groups;
    "proc-and-sys/own-control-group" Nothing proc_and_sys::own_control_group;

    "mounts/host-mounts" Nothing mounts::host_mounts;
    "mounts/host-places" Inside mounts::host_places;
    "mounts/mount-new" Nothing mounts::mount_new;
    "mounts/bind-over-etc" Nothing mounts::bind_over_etc;
    "mounts/remount-writable" Nothing mounts::remount_writable;
    "mounts/unmount" Nothing mounts::unmount;
    "mounts/mount-by-descriptor" Nothing mounts::mount_by_descriptor;
    "mounts/pivot-root" Nothing mounts::pivot_root;
    "mounts/new-namespaces" Nothing mounts::new_namespaces;

    "nested/mount-proc" Nothing nested::mount_proc;
    "nested/mount-sysfs" Nothing nested::mount_sysfs;
    "nested/mount-control-groups" Nothing nested::mount_control_groups;
    "nested/mount-disks" Nothing nested::mount_disks;
    "nested/remount-writable" Nothing nested::remount_writable;
    "nested/uncover" Nothing nested::uncover;
    "nested/bind-below-covers" Nothing nested::bind_below_covers;
    "nested/make-devices" Nothing nested::make_devices;
    "nested/see-host-file" Nothing nested::see_host_file;
    "nested/count-namespaces" Nothing nested::count_namespaces;
    "nested/raise-namespace-limit" Inside nested::raise_namespace_limit;
    "nested/network" Nothing nested::network;
    "nested/power-over-host" Inside nested::power_over_host;

    "kernel/load-module" Nothing kernel::load_module;
    "kernel/reboot" Nothing kernel::reboot;
    "kernel/kexec" Nothing kernel::kexec;
    "kernel/bpf" Nothing kernel::bpf;
    "kernel/perf-events" Nothing kernel::perf_events;
    "kernel/userfaultfd" Nothing kernel::userfaultfd;
    "kernel/io-uring" Nothing kernel::io_uring;
    "kernel/keys" Nothing kernel::keys;
    "kernel/swap" Nothing kernel::swap;
    "kernel/accounting" Nothing kernel::accounting;
    "kernel/quotas" Nothing kernel::quotas;
    "kernel/io-ports" Nothing kernel::io_ports;
    "kernel/kernel-log" Nothing kernel::kernel_log;
    "kernel/clocks" Nothing kernel::clocks;
    "kernel/personality" Nothing kernel::personality;
    "kernel/local-descriptor-table" Nothing kernel::local_descriptor_table;
    "kernel/calls-of-32-bits" Nothing kernel::calls_of_32_bits;
    "kernel/calls-of-x32" Nothing kernel::calls_of_x32;
    "kernel/calls-of-tomorrow" Nothing kernel::calls_of_tomorrow;
    "kernel/type-into-a-terminal" Nothing kernel::type_into_a_terminal;
    "kernel/odd-calls" Inside kernel::odd_calls;

    "network/families" Inside network::families;
    "network/vsock" Nothing network::vsock;
    "network/packet" Nothing network::packet;
    "network/kernel-crypto" Nothing network::kernel_crypto;
    "network/netlink" Inside network::netlink;
    "network/socket-pairs" Inside network::socket_pairs;
    "network/raw-sockets" Nothing network::raw_sockets;
    "network/interfaces" Nothing network::interfaces;
    "network/routes" Nothing network::routes;
    "network/host-port" Nothing network::host_port;
    "network/abstract-socket" Nothing network::abstract_socket;

    "budgets/inotify-instances" Budget budgets::inotify_instances;
    "budgets/inotify-watches" Budget budgets::inotify_watches;
    "budgets/pending-signals" Budget budgets::pending_signals;
    "budgets/message-queues" Budget budgets::message_queues;
    "budgets/terminals" Budget budgets::terminals;
    "budgets/user-namespaces" Budget budgets::user_namespaces;
    "budgets/locked-memory" Nothing budgets::locked_memory;
    "budgets/processes" Bombs budgets::processes;
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ATTEMPTS;

    #[test]
    fn every_attempt_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = ATTEMPTS.iter().map(|attempt| attempt.name).collect();
        assert_eq!(names.len(), ATTEMPTS.len());
    }

    #[test]
    fn a_name_is_a_theme_and_an_attempt() {
        let plain = |part: &str| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        for attempt in ATTEMPTS {
            let parts = attempt.name.split_once('/');
            assert!(
                parts.is_some_and(|(theme, rest)| plain(theme) && plain(rest)),
                "{}",
                attempt.name
            );
        }
    }
}

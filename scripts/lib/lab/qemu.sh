# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154,SC2034  # the other variables are those of scripts/lab
#
# The virtual machine: its command line, and whether KVM may be used for it.
# Sets `qemu`, guest_release and guest_accel for scripts/lab.

# qemu_command VERSION RUN_DIR: fills the array `qemu`.
qemu_command() {
    local version=$1 run=$2 kernel image i accel
    kernel=$(kernel_dir "$version" "$lab_arch") || exit
    image=$(initramfs "$version" "$lab_arch") || exit
    accel=$(accelerator "$kernel" "$image") || exit
    guest_release=$(<"$kernel/release")
    guest_accel=$accel

    local memory=2G machine console append="quiet panic=-1 oops=panic"
    if [ "$lab_arch" = x86_64 ]; then
        machine=q35
        console=ttyS0
        append+=" mitigations=off no_timer_check"
        [ "$accel" = kvm ] || append+=" $(guest_clock)"
        qemu=(qemu-system-x86_64)
    else
        machine=virt,gic-version=3
        console=ttyAMA0
        qemu=(qemu-system-aarch64)
    fi
    # The adapter puts the guest's pages together where uroce finds them: memory that can be mapped twice.
    [ "$lab_device" != pvrdma ] || machine+=,memory-backend=lab-memory
    # The region lies in the middle of the guest's memory and needs no host file.
    [ -z "$lab_pmem" ] || append+=" memmap=$kPmemSize!1G"

    qemu+=(-nodefaults -no-user-config -display none -no-reboot -M "$machine" -smp "$lab_cpus" -m "$memory")
    case $accel in
        kvm) qemu+=(-accel kvm -cpu host) ;;
        *)
            qemu+=(-accel "tcg,thread=multi" -cpu)
            # Where these two are on, the kernel clears and copies with `rep stosb` and `rep movsb`, which QEMU
            # emulates byte by byte: a fault in fresh memory takes twice as long.
            if [ "$lab_arch" = x86_64 ]; then qemu+=("max,erms=off,fsrm=off"); else qemu+=("max,pauth-impdef=on"); fi
            ;;
    esac
    qemu+=(-kernel "$kernel/vmlinux" -initrd "$image" -append "console=$console $append"
        -serial "file:$run/console.log")

    # The three streams that supervise listens on. A plain port, never a console: a console
    # drops what the host doesn't take at once.
    qemu+=(-device "virtio-serial-pci,max_ports=4")
    for i in stdout stderr control; do
        qemu+=(-device "virtserialport,chardev=lab-$i,name=lab-$i")
    done

    share lab "$run/share" off
    [ -z "$lab_out" ] || share out "$lab_out" off
    for i in "${!export_paths[@]}"; do
        share "export$i" "${export_sources[i]}" on
    done
    share modules "$kernel/modules" on
    [ "$lab_device" != pvrdma ] || add_pvrdma "$memory" "$run"
}

# Options that give an emulated x86 guest its clock. Its TSC is the host's own. Measured by the guest on a busy host,
# that comes out up to ten times too fast, and with it every time-out in the guest: the host has measured it better.
# Where the host doesn't trust its TSC, the HPET follows QEMU's clock; one look at it takes ten times as long.
guest_clock() {
    local khz
    khz=$(tsc_khz)
    if [ -n "$khz" ]; then
        printf 'tsc=reliable tsc_early_khz=%s' "$khz"
    else
        printf 'tsc=unstable clocksource=hpet'
    fi
}

# The frequency of the host's TSC, or nothing if the host has no use for it. The kernel shows it as half of its BogoMIPS.
tsc_khz() {
    grep -qsw tsc /sys/devices/system/clocksource/clocksource0/available_clocksource || return 0
    awk -F ': *' '$1 ~ /^flags/ { steady = $2 ~ /constant_tsc/ && $2 ~ /nonstop_tsc/ }
        $1 ~ /^bogomips/ { khz = $2 * 500 }
        END { if (steady && khz > 0) { printf "%d", khz } }' /proc/cpuinfo
}

# share TAG DIR READONLY
share() {
    # A comma in a path is doubled for QEMU's option parser.
    qemu+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none,readonly=$3,multidevs=remap"
        -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

# accelerator KERNEL_DIR INITRAMFS: "kvm" only if it really boots here. That /dev/kvm exists
# proves nothing in a container or a nested machine. The answer is kept for this boot of the
# host.
accelerator() {
    local answer boot_id
    if [ -n "${LAB_ACCEL:-}" ]; then
        printf '%s\n' "$LAB_ACCEL"
        return
    fi
    if [ "$lab_arch" != x86_64 ] || ! [ -r /dev/kvm ] || ! [ -w /dev/kvm ]; then
        printf 'tcg\n'
        return
    fi
    boot_id=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null || printf 'unknown')
    answer=$lab_cache/accelerator
    if [ ! -e "$answer" ] || [ "$(head -n 1 "$answer")" != "$boot_id" ]; then
        mkdir -p "$lab_cache"
        {
            printf '%s\n' "$boot_id"
            if probe_kvm "$1" "$2"; then printf 'kvm\n'; else printf 'tcg\n'; fi
        } >"$answer.$$"
        mv "$answer.$$" "$answer"
    fi
    tail -n 1 "$answer"
}

probe_kvm() {
    local log=$lab_cache/log/kvm-probe.log
    mkdir -p "$lab_cache/log"
    warn "lab: /dev/kvm is there: trying for at most 5 s whether it boots"
    timeout --signal=KILL 5 qemu-system-x86_64 -nodefaults -no-user-config -display none \
        -no-reboot -M q35 -accel kvm -cpu host -smp 2 -m 512M -kernel "$1/vmlinux" -initrd "$2" \
        -append "console=ttyS0 quiet panic=-1 lab.probe" -serial stdio \
        >"$log" 2>&1 </dev/null || true
    grep -q lab-probe-ok "$log"
}

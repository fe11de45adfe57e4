package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// bounds are those of TiKV's own histograms of durations.
var bounds = func() []float64 {
	found := []float64{}
	for at := 0.00001; len(found) < 26; at *= 2 {
		found = append(found, at)
	}
	return found
}()

type histogram struct {
	mu     sync.Mutex
	counts [27]uint64
	sum    float64
	all    uint64
}

func (h *histogram) add(value float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := 0
	for at < len(bounds) && value > bounds[at] {
		at++
	}
	h.counts[at]++
	h.sum += value
	h.all++
}

func (h *histogram) tell(to io.Writer, name, label string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, rest := "", ""
	if label != "" {
		before, rest = label+",", "{"+label+"}"
	}
	sum := uint64(0)
	fmt.Fprintf(to, "# TYPE %s histogram\n", name)
	for i, bound := range bounds {
		sum += h.counts[i]
		fmt.Fprintf(to, "%s_bucket{%sle=\"%g\"} %d\n", name, before, bound, sum)
	}
	fmt.Fprintf(to, "%s_bucket{%sle=\"+Inf\"} %d\n%s_sum%s %g\n%s_count%s %d\n",
		name, before, h.all, name, rest, h.sum, name, rest, h.all)
}

type measures struct {
	grpc, appended, wait, apply, lag histogram
	snapshots                        atomic.Uint64
	failed                           atomic.Uint64

	mu    sync.Mutex
	lost  map[uint64]uint64
	since uint64 // puts since PD was last told
}

func newMeasures() *measures { return &measures{lost: map[uint64]uint64{}} }

func (m *measures) unreachable(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[id]++
}

func (m *measures) put(took time.Duration, ok bool) {
	m.grpc.add(took.Seconds())
	m.lag.add(0)
	if !ok {
		m.failed.Add(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since++
}

func (m *measures) takePuts() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.since
	m.since = 0
	return found
}

// metrics tells all in the text format of Prometheus, under TiKV's own names.
func (s *store) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	var text strings.Builder
	family := func(name, kind string, series map[string]uint64) {
		fmt.Fprintf(&text, "# TYPE %s %s\n", name, kind)
		for labels, value := range series {
			fmt.Fprintf(&text, "%s{%s} %d\n", name, labels, value)
		}
	}
	capacity, available, used := s.space()
	family("tikv_store_size_bytes", "gauge", map[string]uint64{
		`type="capacity"`: capacity, `type="available"`: available, `type="used"`: used})
	family("tikv_engine_size_bytes", "gauge", map[string]uint64{`db="kv",type="default"`: used})
	regions, leaders := s.count()
	family("tikv_raftstore_region_count", "gauge", map[string]uint64{
		`type="region"`: regions, `type="leader"`: leaders})
	m := s.measure
	m.grpc.tell(&text, "tikv_grpc_msg_duration_seconds", `type="raw_put"`)
	m.appended.tell(&text, "tikv_raftstore_append_log_duration_seconds", "")
	m.wait.tell(&text, "tikv_raftstore_apply_wait_time_duration_secs", "")
	m.apply.tell(&text, "tikv_raftstore_apply_log_duration_seconds", "")
	m.lag.tell(&text, "tikv_raftstore_log_lag", "")
	family("tikv_grpc_msg_fail_total", "counter", map[string]uint64{
		`type="raw_put"`: m.failed.Load()})
	family("tikv_raftstore_snapshot_traffic_total", "counter", map[string]uint64{
		`type="applying"`: m.snapshots.Load()})
	family("tikv_server_report_failure_msg_total", "counter", m.failures())
	family("tikv_server_info", "gauge", map[string]uint64{
		fmt.Sprintf("version=%q,hash=\"%040d\"", s.version, 0): 1})
	s.process(&text)
	io.WriteString(w, text.String())
}

func (s *store) count() (regions, leaders uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.kept.Regions {
		regions++
		if s.leadsIt(r) {
			leaders++
		}
	}
	return regions, leaders
}

func (m *measures) failures() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]uint64{}
	for id, count := range m.lost {
		found[fmt.Sprintf("type=\"unreachable\",store_id=\"%d\"", id)] = count
	}
	return found
}

func (s *store) process(to io.Writer) {
	tell := func(name, kind string, value float64) {
		fmt.Fprintf(to, "# TYPE %s %s\n%s %g\n", name, kind, name, value)
	}
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) == nil {
		spent := float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
		tell("process_cpu_seconds_total", "counter", spent)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		pages, _ := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
		tell("process_resident_memory_bytes", "gauge", pages*float64(os.Getpagesize()))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		tell("process_open_fds", "gauge", float64(len(open)))
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		tell("process_max_fds", "gauge", float64(limit.Cur))
	}
	tell("process_start_time_seconds", "gauge", float64(s.started.Unix()))
}

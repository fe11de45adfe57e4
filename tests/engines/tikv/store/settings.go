package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// settings are those of TiKV's own that decide something here, under TiKV's own names.
type settings struct {
	tick, election             time.Duration
	regionHeartbeat, heartbeat time.Duration
	peerDown                   time.Duration
	capacity                   uint64
	labels                     map[string]string
	all                        map[string]any
	pretence
}

// pretence is what no TiKV can be told, in a table `[test]`: what cannot be had from a machine that
// all parts of a rig share, or only by an hour of load.
type pretence struct {
	version   string        // it says that it is of this version
	clock     time.Duration // its clock is ahead by this
	applyWait time.Duration // what was agreed on waits this long
	hotBytes  uint64        // so much a second is written to one of its regions
}

var defaults = map[string]any{
	"raftstore.raft-base-tick-interval":          "1s",
	"raftstore.raft-election-timeout-ticks":      int64(10),
	"raftstore.pd-heartbeat-tick-interval":       "1m",
	"raftstore.pd-store-heartbeat-tick-interval": "10s",
	"raftstore.max-peer-down-duration":           "10m",
	"raftstore.capacity":                         int64(0),
}

func readSettings(path string) (settings, error) {
	all := map[string]any{}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return settings{}, err
		}
		if err := toml.Unmarshal(text, &all); err != nil {
			return settings{}, err
		}
	}
	for key, value := range defaults {
		section, name, _ := strings.Cut(key, ".")
		if _, ok := all[section].(map[string]any); !ok {
			all[section] = map[string]any{}
		}
		if _, ok := all[section].(map[string]any)[name]; !ok {
			all[section].(map[string]any)[name] = value
		}
	}
	return understood(all)
}

func understood(all map[string]any) (s settings, err error) {
	raft := all["raftstore"].(map[string]any)
	span := func(name string) time.Duration {
		text := fmt.Sprint(raft[name])
		found, wrong := time.ParseDuration(text)
		if wrong != nil || found <= 0 {
			err = fmt.Errorf("raftstore.%s is %q, not a duration", name, text)
		}
		return found
	}
	whole := func(name string) int64 {
		found, ok := raft[name].(int64)
		if !ok {
			err = fmt.Errorf("raftstore.%s is not a whole number", name)
		}
		return found
	}
	s.all = all
	s.tick = span("raft-base-tick-interval")
	s.election = s.tick * time.Duration(whole("raft-election-timeout-ticks"))
	s.regionHeartbeat = span("pd-heartbeat-tick-interval")
	s.heartbeat = span("pd-store-heartbeat-tick-interval")
	s.peerDown = span("max-peer-down-duration")
	s.capacity = uint64(whole("capacity"))
	s.labels = map[string]string{}
	if server, ok := all["server"].(map[string]any); ok {
		if labels, ok := server["labels"].(map[string]any); ok {
			for key, value := range labels {
				s.labels[key] = fmt.Sprint(value)
			}
		}
	}
	s.pretence, err = pretended(all, err)
	return s, err
}

func pretended(all map[string]any, err error) (pretence, error) {
	p := pretence{version: Version}
	test, _ := all["test"].(map[string]any)
	if found, ok := test["version"].(string); ok {
		p.version = found
	}
	if found, ok := test["hot-bytes"].(int64); ok {
		p.hotBytes = uint64(found)
	}
	spans := map[string]*time.Duration{"clock-ahead": &p.clock, "apply-wait": &p.applyWait}
	for name, to := range spans {
		if found, ok := test[name].(string); ok && err == nil {
			*to, err = time.ParseDuration(found)
		}
	}
	return p, err
}

package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
)

// kept is what a store still knows after it was killed.
type kept struct {
	Store   uint64
	Regions map[uint64]*replica
	// Regions that are not here any more, with the last that was known of them.
	Gone map[uint64]*metapb.RegionEpoch
}

// store is all of it. One lock is enough for a few hundred regions; nobody waits for the network
// or for the disk while holding it.
type store struct {
	options
	settings
	log     *unified
	pd      *placement
	measure *measures
	started time.Time
	calls   *http.Client

	mu        sync.Mutex
	kept      kept
	hot       uint64 // the region that is hot, where one is to be
	addresses map[uint64]string
	busy      map[uint64]bool // a call to this store is under way
	wake      chan struct{}   // PD should hear something

	saving sync.Mutex
}

const keptFile = "store.json"

func newStore(o options, conf settings, log *unified) *store {
	return &store{
		options: o, settings: conf, log: log,
		pd:        newPlacement(o.endpoints),
		measure:   newMeasures(),
		started:   time.Now(),
		calls:     &http.Client{Timeout: conf.election},
		kept:      kept{Regions: map[uint64]*replica{}, Gone: map[uint64]*metapb.RegionEpoch{}},
		addresses: map[uint64]string{},
		busy:      map[uint64]bool{},
		wake:      make(chan struct{}, 1),
	}
}

func (s *store) load() error {
	// The files by which the data of the real program is known.
	for _, name := range []string{"raft-engine/0000000000000001.raftlog", "db/CURRENT"} {
		file := filepath.Join(s.dataDir, name)
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			os.MkdirAll(filepath.Dir(file), 0o755)
			os.WriteFile(file, []byte("small store\n"), 0o644)
		}
	}
	text, err := os.ReadFile(filepath.Join(s.dataDir, keptFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s.kept)
	}
	for _, r := range s.kept.Regions {
		fresh := newReplica(r.Region)
		r.heard, r.counted, r.patience = fresh.heard, fresh.counted, fresh.patience
	}
	return err
}

// save writes down what is known; a full disk is told of and lived with, as TiKV lives with it.
func (s *store) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	text, err := json.Marshal(s.kept)
	s.mu.Unlock()
	half := filepath.Join(s.dataDir, keptFile+".half")
	if err == nil {
		err = os.WriteFile(half, text, 0o644)
	}
	if err == nil {
		err = os.Rename(half, filepath.Join(s.dataDir, keptFile))
	}
	if err != nil {
		s.log.write("ERROR", "failed to write to disk", "err", err)
	}
}

func (s *store) leadsIt(r *replica) bool {
	mine := r.peerOn(s.kept.Store)
	return mine != nil && r.leader == mine.GetId()
}

// leads lets this store lead a region from now on. Holding the lock.
func (s *store) leads(r *replica, now time.Time) {
	mine := r.peerOn(s.kept.Store)
	r.leader, r.acked, r.heard = mine.GetId(), map[uint64]time.Time{mine.GetId(): now}, now
	for _, peer := range r.Region.GetPeers() {
		if peer.GetRole() != metapb.PeerRole_Learner {
			r.acked[peer.GetId()] = now // time enough for the first answer
		}
	}
	r.news = true
	s.tellSoon()
	s.log.write("INFO", "became leader at term "+itoa(r.Term), "term", r.Term,
		"raft_id", mine.GetId(), "region_id", r.Region.GetId())
}

// follows lets this store lead a region no more. Holding the lock.
func (s *store) follows(r *replica, term, leader uint64) {
	if s.leadsIt(r) || r.Term != term {
		s.log.write("INFO", "became follower at term "+itoa(term), "term", term,
			"raft_id", r.peerOn(s.kept.Store).GetId(), "region_id", r.Region.GetId())
	}
	if r.Term != term {
		r.Term, r.Voted = term, 0
	}
	r.leader, r.acked, r.heard = leader, nil, time.Now()
}

// forget ends the replica of a region here. Holding the lock.
func (s *store) forget(id uint64, epoch *metapb.RegionEpoch) {
	r := s.kept.Regions[id]
	if r == nil || older(epoch, r.Region.GetRegionEpoch()) {
		return
	}
	s.log.write("INFO", "peer destroys itself", "region_id", id,
		"peer_id", r.peerOn(s.kept.Store).GetId())
	delete(s.kept.Regions, id)
	s.kept.Gone[id] = epoch
}

// tellSoon wakes who talks to PD. Never waits.
func (s *store) tellSoon() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

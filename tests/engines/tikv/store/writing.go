package main

import (
	"bytes"
	"context"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
)

const (
	putEvery    = 200 * time.Millisecond
	putBytes    = 256
	putsMax     = 16
	slowPut     = 500 * time.Millisecond
	logFileName = "raft.log"
	logBytesMax = 1 << 20
)

type appending struct{ Region, Term uint64 }

// write puts a little into regions that are led here, all the time: each is on the disk of this
// store and of enough others before it counts, so that its time tells of both disk and network.
func (s *store) write(ctx context.Context) {
	ticker := time.NewTicker(putEvery)
	defer ticker.Stop()
	free := make(chan struct{}, putsMax)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r := s.anyLed()
		if r == nil {
			continue
		}
		select {
		case free <- struct{}{}:
			go func() {
				s.put(ctx, r)
				<-free
			}()
		default: // all are still under way
		}
	}
}

func (s *store) anyLed() *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	var led []*replica
	for _, r := range s.kept.Regions {
		if s.leadsIt(r) {
			led = append(led, r)
		}
	}
	if len(led) == 0 {
		return nil
	}
	return led[rand.Intn(len(led))]
}

func (s *store) put(ctx context.Context, r *replica) {
	began := time.Now()
	s.mu.Lock()
	one := &appending{r.Region.GetId(), r.Term}
	as := &replica{Region: r.Region}
	s.mu.Unlock()
	answers := make(chan uint64, len(as.Region.GetPeers()))
	for _, peer := range as.Region.GetPeers() {
		go func(to uint64) {
			var err error
			if to == s.kept.Store {
				err = s.append()
			} else {
				err = s.call(ctx, to, "/peer/append", one, &struct{}{})
			}
			if err != nil {
				to = 0
			}
			answers <- to
		}(peer.GetStoreId())
	}
	done := map[uint64]bool{}
	ok := false
	for range as.Region.GetPeers() {
		done[<-answers] = true
		if ok = as.majority(func(p *metapb.Peer) bool { return done[p.GetStoreId()] }); ok {
			break
		}
	}
	s.measure.put(time.Since(began), ok)
	if took := time.Since(began); took > slowPut {
		s.log.write("WARN", "slow-query", "region_id", one.Region, "total_lifetime", took)
	}
	if !ok {
		return
	}
	committed := time.Now()
	pause(ctx, s.applyWait)
	s.mu.Lock()
	s.measure.wait.add(time.Since(committed).Seconds())
	applied := time.Now()
	r.Writes++
	r.flow.bytes += putBytes
	r.flow.keys++
	s.mu.Unlock()
	s.measure.apply.add(time.Since(applied).Seconds())
}

// hearAppend is the other side of put.
func (s *store) hearAppend(_ context.Context, one *appending) (*struct{}, error) {
	s.mu.Lock()
	r := s.kept.Regions[one.Region]
	known := r != nil && r.Term <= one.Term
	s.mu.Unlock()
	if !known {
		return nil, errNotAgreed
	}
	return &struct{}{}, s.append()
}

// append adds to a log on the disk, and starts it anew when it is long.
func (s *store) append() error {
	began := time.Now()
	path := filepath.Join(s.dataDir, logFileName)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > logBytesMax {
		file.Truncate(0)
	}
	if _, err = file.Write(bytes.Repeat([]byte{'.'}, putBytes)); err == nil {
		err = file.Sync()
	}
	s.measure.appended.add(time.Since(began).Seconds())
	return err
}

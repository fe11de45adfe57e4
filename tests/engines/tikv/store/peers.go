package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// state is what a leader says of a region.
type state struct {
	Region *metapb.Region
	Term   uint64
	Leader uint64
}

// beat is what a store tells another: what it leads there, and what is there no more.
type beat struct {
	From  uint64
	Leads []state
	Gone  map[uint64]*metapb.RegionEpoch
}

type beatReply struct {
	Accepted []uint64
	Newer    map[uint64]uint64 // terms in which somebody else was chosen
}

// call asks another store. Its address is PD's word, and asked for again when it did not answer.
func (s *store) call(ctx context.Context, to uint64, path string, question, reply any) error {
	address, err := s.address(ctx, to)
	if err != nil {
		return err
	}
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	url := "http://" + address + path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := s.calls.Do(request)
	if err != nil {
		s.measure.unreachable(to)
		s.mu.Lock()
		delete(s.addresses, to)
		s.mu.Unlock()
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("store %d answers %s", to, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(reply)
}

func (s *store) address(ctx context.Context, id uint64) (string, error) {
	s.mu.Lock()
	found := s.addresses[id]
	s.mu.Unlock()
	if found != "" {
		return found, nil
	}
	wish := &pdpb.GetStoreRequest{Header: s.pd.header(), StoreId: id}
	asked, err := ask(ctx, s.pd, pdpb.PDClient.GetStore, wish)
	if err != nil {
		return "", err
	}
	found = asked.GetStore().GetAddress()
	if found == "" || asked.GetStore().GetState() == metapb.StoreState_Tombstone {
		return "", fmt.Errorf("store %d is not to be found", id)
	}
	s.mu.Lock()
	s.addresses[id] = found
	s.mu.Unlock()
	return found, nil
}

// ticks is the life of the regions: leaders say that they lead, and who misses one stands for it.
func (s *store) ticks(ctx context.Context) {
	ticker := time.NewTicker(s.tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			beats, wanting := s.due(now)
			for to, one := range beats {
				s.once(to, func() { s.beat(ctx, to, one) })
			}
			if len(wanting) > 0 {
				s.once(0, func() { s.campaign(ctx, wanting) })
			}
			if now.Sub(s.started) > s.election {
				s.presplitOnce(ctx)
			}
		}
	}
}

// once does something in the background, unless the same is still under way.
func (s *store) once(what uint64, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[what] {
		return
	}
	s.busy[what] = true
	go func() {
		do()
		s.mu.Lock()
		delete(s.busy, what)
		s.mu.Unlock()
	}()
}

func (s *store) due(now time.Time) (map[uint64]*beat, []*replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	beats, wanting := map[uint64]*beat{}, []*replica{}
	for _, r := range s.kept.Regions {
		mine := r.peerOn(s.kept.Store)
		if !s.leadsIt(r) {
			late := now.Sub(r.heard).Seconds() > s.election.Seconds()*r.patience
			if late && mine != nil && mine.GetRole() != metapb.PeerRole_Learner {
				wanting = append(wanting, r)
			}
			continue
		}
		r.acked[mine.GetId()] = now
		fresh := func(p *metapb.Peer) bool { return now.Sub(r.acked[p.GetId()]) < s.election }
		if !r.majority(fresh) {
			s.log.write("WARN", "leader has no majority any more", "region_id", r.Region.GetId())
			s.follows(r, r.Term, 0)
			continue
		}
		r.heard = now
		for _, peer := range r.Region.GetPeers() {
			if to := peer.GetStoreId(); to != s.kept.Store {
				if beats[to] == nil {
					beats[to] = &beat{From: s.kept.Store}
				}
				beats[to].Leads = append(beats[to].Leads, state{r.Region, r.Term, r.leader})
			}
		}
	}
	return beats, wanting
}

// beat tells another store what is led here, and hears whether it agrees.
func (s *store) beat(ctx context.Context, to uint64, one *beat) (map[uint64]bool, error) {
	var reply beatReply
	if err := s.call(ctx, to, "/peer/beat", one, &reply); err != nil {
		return nil, err
	}
	now, agreed := time.Now(), map[uint64]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range reply.Accepted {
		agreed[id] = true
		r := s.kept.Regions[id]
		if r == nil || !s.leadsIt(r) {
			continue
		}
		if peer := r.peerOn(to); peer != nil {
			before, known := r.acked[peer.GetId()]
			r.acked[peer.GetId()] = now
			if !known || now.Sub(before) > s.peerDown {
				r.news = true
				s.tellSoon()
			}
		}
	}
	for id, term := range reply.Newer {
		if r := s.kept.Regions[id]; r != nil && term > r.Term {
			s.follows(r, term, 0)
		}
	}
	return agreed, nil
}

// hearBeat is the other side of beat.
func (s *store) hearBeat(_ context.Context, one *beat) (*beatReply, error) {
	reply := &beatReply{Newer: map[uint64]uint64{}}
	s.mu.Lock()
	before := len(s.kept.Regions) + len(s.kept.Gone)
	changes := false
	for id, epoch := range one.Gone {
		s.forget(id, epoch)
	}
	for _, said := range one.Leads {
		ok, news := s.accept(one.From, said, reply)
		changes = changes || news
		if ok {
			reply.Accepted = append(reply.Accepted, said.Region.GetId())
		}
	}
	changes = changes || before != len(s.kept.Regions)+len(s.kept.Gone)
	s.mu.Unlock()
	if changes {
		s.save()
	}
	return reply, nil
}

// accept takes a leader's word for a region. Holding the lock.
func (s *store) accept(from uint64, said state, reply *beatReply) (ok, news bool) {
	id, epoch := said.Region.GetId(), said.Region.GetRegionEpoch()
	r := s.kept.Regions[id]
	if r == nil {
		fresh := newReplica(said.Region)
		mine := fresh.peerOn(s.kept.Store)
		gone := s.kept.Gone[id]
		if mine == nil || (gone != nil && !older(gone, epoch)) {
			return false, false
		}
		delete(s.kept.Gone, id)
		s.log.write("INFO", "begin apply snap data", "region_id", id, "peer_id", mine.GetId(),
			"from_store", from)
		fresh.Term, fresh.leader = said.Term, said.Leader
		s.kept.Regions[id] = fresh
		s.measure.snapshots.Add(1)
		s.log.write("INFO", "apply new region", "region_id", id, "time_takes", "1ms")
		return true, true
	}
	if said.Term < r.Term {
		reply.Newer[id] = r.Term
		return false, false
	}
	newer := said.Term > r.Term
	if newer || r.leader != said.Leader {
		s.follows(r, said.Term, said.Leader)
	}
	r.heard = time.Now()
	if newer || older(r.Region.GetRegionEpoch(), epoch) {
		news = newer || !same(r.Region.GetRegionEpoch(), epoch)
		r.Region = said.Region
	}
	return true, news
}

var errNotAgreed = errors.New("the majority has not agreed")

// propose lets a region become what `next` says, with all that comes of it, once the majority of
// its peers has it: PD is told of nothing that could be lost.
func (s *store) propose(
	ctx context.Context, r *replica, next []*metapb.Region, gone map[uint64]*metapb.RegionEpoch,
) error {
	s.mu.Lock()
	before, term := r.Region, r.Term
	told := map[uint64]*beat{}
	for _, region := range next {
		as := &replica{Region: region}
		for _, peer := range slices.Concat(region.GetPeers(), before.GetPeers()) {
			to := peer.GetStoreId()
			if told[to] == nil {
				told[to] = &beat{From: s.kept.Store, Gone: map[uint64]*metapb.RegionEpoch{}}
				for id, epoch := range gone {
					told[to].Gone[id] = epoch
				}
			}
			if as.peerOn(to) == nil {
				told[to].Gone[region.GetId()] = region.GetRegionEpoch()
			} else if !knows(told[to].Leads, region.GetId()) {
				leader := as.peerOn(s.kept.Store).GetId()
				told[to].Leads = append(told[to].Leads, state{region, term, leader})
			}
		}
	}
	s.mu.Unlock()
	agreed := s.tellAll(ctx, told, before.GetId())
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leadsIt(r) || r.Term != term || r.Region != before ||
		!r.majority(func(p *metapb.Peer) bool { return agreed[p.GetStoreId()] }) {
		return errNotAgreed
	}
	now := time.Now()
	for _, region := range next {
		if region.GetId() == before.GetId() {
			r.Region, r.news = region, true
			continue
		}
		piece := newReplica(region)
		piece.Term = term
		s.kept.Regions[region.GetId()] = piece
		s.leads(piece, now)
	}
	for id, epoch := range gone {
		s.forget(id, epoch)
	}
	s.tellSoon()
	return nil
}

func knows(all []state, id uint64) bool {
	for _, each := range all {
		if each.Region.GetId() == id {
			return true
		}
	}
	return false
}

// tellAll says which stores have agreed to a region; a peer that is to go has nothing to say.
func (s *store) tellAll(ctx context.Context, told map[uint64]*beat, region uint64) map[uint64]bool {
	var waiting sync.WaitGroup
	var mu sync.Mutex
	agreed := map[uint64]bool{s.kept.Store: true}
	for to, one := range told {
		if to == s.kept.Store {
			continue
		}
		waiting.Add(1)
		go func(to uint64, one *beat) {
			defer waiting.Done()
			found, err := s.beat(ctx, to, one)
			_, goes := one.Gone[region]
			mu.Lock()
			agreed[to] = err == nil && (goes || found[region])
			mu.Unlock()
		}(to, one)
	}
	waiting.Wait()
	return agreed
}

package ec2sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// getProducts is the price list: Linux on shared hardware, on-demand, of this
// region. Each product is a JSON text of its own, as AWS has it.
func (s *Sim) getProducts(body []byte, _ time.Time) (any, *Error) {
	var r struct {
		ServiceCode, FormatVersion, NextToken string
		MaxResults                            int
		Filters                               []struct{ Type, Field, Value string }
	}
	if e := readJSON(body, &r); e != nil {
		return nil, e
	}
	if r.ServiceCode != "AmazonEC2" {
		return nil, fail("NotFoundException", "The service code %s is not in the price list here", r.ServiceCode)
	}
	list := []string{}
	for i := range s.cat.Types {
		t := &s.cat.Types[i]
		attributes := s.productAttributes(t)
		matched := true
		for _, f := range r.Filters {
			if f.Type != "TERM_MATCH" && f.Type != "EQUALS" {
				return nil, fail("InvalidParameterException", "The filter type %s is not supported here; use TERM_MATCH", f.Type)
			}
			matched = matched && attributes[f.Field] == f.Value
		}
		if matched {
			list = append(list, product(t, attributes))
		}
	}
	list, next, e := jsonPage(list, min(r.MaxResults, 100), r.NextToken, "InvalidNextTokenException")
	if e != nil {
		return nil, e
	}
	reply := map[string]any{"FormatVersion": "aws_v1", "PriceList": list}
	if next != "" {
		reply["NextToken"] = next
	}
	return reply, nil
}

// locations are the price list's names for regions.
var locations = map[string]string{
	"us-east-1": "US East (N. Virginia)", "us-east-2": "US East (Ohio)", "us-west-2": "US West (Oregon)",
	"eu-central-1": "EU (Frankfurt)", "eu-west-1": "EU (Ireland)",
}

func (s *Sim) productAttributes(t *Type) map[string]string {
	a := map[string]string{
		"servicecode": "AmazonEC2", "servicename": "Amazon Elastic Compute Cloud", "instanceType": t.Name, "regionCode": s.cat.Region,
		"location": locations[s.cat.Region], "locationType": "AWS Region", "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
		"capacitystatus": "Used", "licenseModel": "No License required", "operation": "RunInstances", "marketoption": "OnDemand", "termType": "OnDemand",
		"vcpu": strconv.Itoa(t.VCPUs), "memory": fmt.Sprintf("%g GiB", float64(t.MemoryMiB)/1024), "networkPerformance": t.Network, "currentGeneration": "Yes",
	}
	if t.GPU != nil {
		a["gpu"] = strconv.Itoa(t.GPU.Count)
	}
	return a
}

func product(t *Type, attributes map[string]string) string {
	// The real codes are hashes; these only need to be of their own.
	sku := fmt.Sprintf("SIM%X", t.Name)
	offer := sku + ".JRTCKXETXF"
	rate := offer + ".6YS6EN2CT7"
	b, err := json.Marshal(map[string]any{
		"product":     map[string]any{"productFamily": "Compute Instance", "attributes": attributes, "sku": sku},
		"serviceCode": "AmazonEC2", "version": "20250701000000", "publicationDate": "2025-07-01T00:00:00Z",
		"terms": map[string]any{"OnDemand": map[string]any{offer: map[string]any{
			"sku": sku, "offerTermCode": "JRTCKXETXF", "effectiveDate": "2025-07-01T00:00:00Z", "termAttributes": map[string]string{},
			"priceDimensions": map[string]any{rate: map[string]any{
				"rateCode": rate, "unit": "Hrs", "beginRange": "0", "endRange": "Inf", "appliesTo": []string{},
				"description":  fmt.Sprintf("$%g per On Demand Linux %s Instance Hour", t.OnDemand, t.Name),
				"pricePerUnit": map[string]string{"USD": fmt.Sprintf("%.10f", t.OnDemand)},
			}},
		}}},
	})
	if err != nil {
		panic(err) // strings and maps always encode
	}
	return string(b)
}

#include "formats/pte/schema.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"
#include "program_generated.h"

namespace downhaul::pte {
namespace {

namespace fb = fb_pte;

constexpr uint64_t kMaxFlatbuffer = uint64_t{1} << 31;

// ---- reading ----

class Decoder {
 public:
  Decoder(Bytes flatbuffer, uint64_t max_bytes) : flatbuffer_(flatbuffer), left_(max_bytes) {}

  Result<RawProgram> run(const fb::Program& root) {
    raw_.version = root.version();
    if (const auto* plans = root.execution_plan()) {
      for (const fb::Plan* plan : *plans) {
        Plan out;
        DH_TRY(take(sizeof(Plan)));
        DH_TRY(copy_string(plan->name(), out.name));
        DH_TRY(decode_plan(*plan, out).with_context(cat("plan '", printable(out.name), "'")));
        raw_.program.plans.push_back(std::move(out));
      }
    }
    DH_TRY(copy_storage(root));
    return std::move(raw_);
  }

 private:
  // Every allocation below is asked for here first.
  Status take(uint64_t bytes) {
    if (bytes > left_) {
      return invalid_file(
          "the program refers to the same tables so often that it will not be read");
    }
    left_ -= bytes;
    return {};
  }

  Status copy_string(const flatbuffers::String* from, std::string& to) {
    if (from == nullptr) return {};
    DH_TRY(take(from->size()));
    to.assign(from->c_str(), from->size());
    return {};
  }

  // By bytes: the verifier of older FlatBuffers lets vectors of 8-byte numbers lie at any multiple
  // of 4.
  template <typename T, typename From>
  Status copy_vector(const flatbuffers::Vector<From>* from, std::vector<T>& to) {
    static_assert(sizeof(T) == sizeof(From));
    if (from == nullptr) return {};
    DH_TRY(take(uint64_t{from->size()} * sizeof(T)));
    to.resize(from->size());
    if (!to.empty()) std::memcpy(to.data(), from->Data(), to.size() * sizeof(T));
    return {};
  }

  template <typename Vector>
  Status copy_required(const Vector* from, auto& to, std::string_view field) {
    if (from == nullptr) return invalid_file(cat(field, " is missing"));
    return copy_vector(from, to);
  }

  ByteRange range_of(const flatbuffers::Vector<uint8_t>* bytes) const {
    if (bytes == nullptr) return {};
    return {static_cast<uint64_t>(bytes->data() - flatbuffer_.data()), bytes->size()};
  }

  Status decode_plan(const fb::Plan& plan, Plan& out) {
    if (plan.name() == nullptr) return invalid_file("name is missing");
    if (const fb::Container* container = plan.container_meta_type()) {
      DH_TRY(copy_string(container->encoded_inp_str(), out.encoded_inputs));
      DH_TRY(copy_string(container->encoded_out_str(), out.encoded_outputs));
    }
    if (plan.values() == nullptr) return invalid_file("values is missing");
    DH_TRY(take(uint64_t{plan.values()->size()} * sizeof(Value)));
    out.values.reserve(plan.values()->size());
    for (const fb::Value* value : *plan.values()) {
      Status status = decode_value(*value, out.values);
      if (!status.ok()) {
        return std::move(status).with_context(cat("value ", out.values.size()));
      }
    }
    DH_TRY(copy_vector(plan.inputs(), out.inputs));
    DH_TRY(copy_vector(plan.outputs(), out.outputs));
    if (plan.chains() == nullptr) return invalid_file("chains is missing");
    for (const fb::Chain* chain : *plan.chains()) DH_TRY(decode_chain(*chain, out));
    if (const auto* operators = plan.operators()) {
      DH_TRY(take(uint64_t{operators->size()} * sizeof(Operator)));
      for (const fb::Operator* op : *operators) {
        Operator& to = out.operators.emplace_back();
        if (op->name() == nullptr) {
          return invalid_file(cat("operator ", out.operators.size() - 1, ": name is missing"));
        }
        DH_TRY(copy_string(op->name(), to.name));
        DH_TRY(copy_string(op->overload(), to.overload));
      }
    }
    if (const auto* delegates = plan.delegates()) {
      for (const fb::Delegate* delegate : *delegates) {
        DH_TRY(
            decode_delegate(*delegate, out).with_context(cat("delegate ", out.delegates.size())));
      }
    }
    out.non_const_buffer_sizes.clear();
    return copy_required(plan.non_const_buffer_sizes(), out.non_const_buffer_sizes,
                         "non_const_buffer_sizes");
  }

  // A table that the type byte promises but the union does not hold.
  static Status empty_union() { return invalid_file("its table is missing"); }

  Status decode_value(const fb::Value& value, std::vector<Value>& out) {
    const auto type = static_cast<int>(value.val_type());
    if (type < static_cast<int>(fb::Kind::Null) ||
        type > static_cast<int>(fb::Kind::OptionalTensorList)) {
      return invalid_file(cat("unknown type ", type));
    }
    if (value.val() == nullptr) return empty_union();
    switch (value.val_type()) {
      case fb::Kind::Int:
        out.emplace_back(Int{value.val_as_Int()->int_val()});
        return {};
      case fb::Kind::Bool:
        out.emplace_back(Bool{value.val_as_Bool()->bool_val()});
        return {};
      case fb::Kind::Double:
        out.emplace_back(Double{value.val_as_Double()->double_val()});
        return {};
      case fb::Kind::Tensor: {
        Tensor tensor;
        DH_TRY(decode_tensor(*value.val_as_Tensor(), tensor));
        out.emplace_back(std::move(tensor));
        return {};
      }
      case fb::Kind::String: {
        String text;
        if (value.val_as_String()->string_val() == nullptr) {
          return invalid_file("string_val is missing");
        }
        DH_TRY(copy_string(value.val_as_String()->string_val(), text.value));
        out.emplace_back(std::move(text));
        return {};
      }
      case fb::Kind::IntList:
        return decode_list<IntList>(value.val_as_IntList()->items(), out);
      case fb::Kind::DoubleList:
        return decode_list<DoubleList>(value.val_as_DoubleList()->items(), out);
      case fb::Kind::BoolList: {
        DH_TRY(decode_list<BoolList>(value.val_as_BoolList()->items(), out));
        for (uint8_t& item : std::get<BoolList>(out.back()).items) item = item != 0 ? 1 : 0;
        return {};
      }
      case fb::Kind::TensorList:
        return decode_list<TensorList>(value.val_as_TensorList()->items(), out);
      case fb::Kind::OptionalTensorList:
        return decode_list<OptionalTensorList>(value.val_as_OptionalTensorList()->items(), out);
      default:
        out.emplace_back(Null{});
        return {};
    }
  }

  template <typename List, typename Vector>
  Status decode_list(const Vector* items, std::vector<Value>& out) {
    List list;
    DH_TRY(copy_required(items, list.items, "items"));
    out.emplace_back(std::move(list));
    return {};
  }

  Status decode_tensor(const fb::Tensor& tensor, Tensor& out) {
    // Small vectors cost an allocation of at least 32 bytes each.
    DH_TRY(take(64));
    DH_TRY(copy_required(tensor.sizes(), out.sizes, "sizes"));
    DH_TRY(copy_required(tensor.dim_order(), out.dim_order, "dim_order"));
    out.dtype = static_cast<ScalarType>(tensor.scalar_type());
    out.dynamism = static_cast<Dynamism>(tensor.shape_dynamism());
    out.requires_grad = tensor.requires_grad();
    out.data_index = tensor.data_buffer_idx();
    if (tensor.storage_offset() != 0) {
      return unsupported(cat("storage_offset ", tensor.storage_offset(), ", expected 0"));
    }
    if (tensor.layout() != 0) {
      return unsupported(
          cat("layout ", static_cast<int>(tensor.layout()), ", expected 0 (strided)"));
    }
    if (const fb::Allocation* a = tensor.allocation_info()) {
      const uint64_t high = a->memory_offset_high();
      out.allocation = {.memory_id = a->memory_id(), .offset = high << 32 | a->memory_offset_low()};
    }
    if (const fb::ExtraTensorInfo* extra = tensor.extra_tensor_info()) {
      if (extra->mutable_data_segments_idx() != 0) {
        return unsupported(
            cat("mutable_data_segments_idx ", extra->mutable_data_segments_idx(), ", expected 0"));
      }
      if (extra->location() == fb::TensorLocation::External) {
        DH_TRY(copy_string(extra->fully_qualified_name(), out.external_name));
        if (out.external_name.empty()) {
          return invalid_file("data in another file without fully_qualified_name");
        }
      }
    }
    return {};
  }

  Status decode_chain(const fb::Chain& chain, Plan& plan) {
    DH_TRY(take(sizeof(Chain)));
    Chain& out = plan.chains.emplace_back();
    DH_TRY(copy_vector(chain.inputs(), out.inputs));
    DH_TRY(copy_vector(chain.outputs(), out.outputs));
    if (chain.instructions() == nullptr) {
      return invalid_file(cat("chain ", plan.chains.size() - 1, ": instructions is missing"));
    }
    DH_TRY(take(uint64_t{chain.instructions()->size()} * sizeof(Instruction)));
    out.instructions.reserve(chain.instructions()->size());
    for (const fb::Instruction* instruction : *chain.instructions()) {
      Status status = decode_instruction(*instruction, out.instructions);
      if (!status.ok()) {
        return std::move(status).with_context(cat("instruction ", out.instructions.size()));
      }
    }
    return {};
  }

  Status decode_instruction(const fb::Instruction& instruction, std::vector<Instruction>& out) {
    const auto type = static_cast<int>(instruction.instr_args_type());
    if (type < static_cast<int>(fb::Call::KernelCall) ||
        type > static_cast<int>(fb::Call::FreeCall)) {
      return invalid_file(cat("unknown type ", type));
    }
    if (instruction.instr_args() == nullptr) return empty_union();
    switch (instruction.instr_args_type()) {
      case fb::Call::KernelCall: {
        const fb::KernelCall* call = instruction.instr_args_as_KernelCall();
        KernelCall to{.op_index = call->op_index(), .args = {}};
        DH_TRY(copy_required(call->args(), to.args, "args"));
        out.emplace_back(std::move(to));
        return {};
      }
      case fb::Call::DelegateCall: {
        const fb::DelegateCall* call = instruction.instr_args_as_DelegateCall();
        DelegateCall to{.delegate_index = call->delegate_index(), .args = {}};
        DH_TRY(copy_required(call->args(), to.args, "args"));
        out.emplace_back(std::move(to));
        return {};
      }
      case fb::Call::MoveCall: {
        const fb::MoveCall* call = instruction.instr_args_as_MoveCall();
        out.emplace_back(MoveCall{.from = call->move_from(), .to = call->move_to()});
        return {};
      }
      case fb::Call::JumpFalseCall: {
        const fb::JumpFalseCall* call = instruction.instr_args_as_JumpFalseCall();
        out.emplace_back(JumpFalseCall{.condition = call->cond_value_index(),
                                       .destination = call->destination_instruction()});
        return {};
      }
      default:
        out.emplace_back(FreeCall{.value = instruction.instr_args_as_FreeCall()->value_index()});
        return {};
    }
  }

  Status decode_delegate(const fb::Delegate& delegate, Plan& plan) {
    DH_TRY(take(sizeof(Delegate) + sizeof(RawProgram::PayloadReference)));
    Delegate out;
    if (delegate.id() == nullptr) return invalid_file("id is missing");
    DH_TRY(copy_string(delegate.id(), out.id));
    const fb::PayloadReference* processed = delegate.processed();
    if (processed == nullptr) return invalid_file("processed is missing");
    const auto location = static_cast<int>(processed->location());
    if (location != static_cast<int>(fb::PayloadLocation::Inline) &&
        location != static_cast<int>(fb::PayloadLocation::Segment)) {
      return invalid_file(cat("unknown location ", location, " of its payload"));
    }
    out.payload = static_cast<uint32_t>(raw_.payloads.size());
    raw_.payloads.push_back(
        {.in_segment = location == static_cast<int>(fb::PayloadLocation::Segment),
         .index = processed->index()});
    if (const auto* specs = delegate.compile_specs()) {
      DH_TRY(take(uint64_t{specs->size()} * sizeof(CompileSpec)));
      for (const fb::CompileSpec* spec : *specs) {
        CompileSpec& to = out.compile_specs.emplace_back();
        DH_TRY(copy_string(spec->key(), to.key));
        DH_TRY(copy_vector(spec->value(), to.value));
      }
    }
    plan.delegates.push_back(std::move(out));
    return {};
  }

  Status copy_storage(const fb::Program& root) {
    if (const auto* constants = root.constant_buffer()) {
      DH_TRY(take(uint64_t{constants->size()} * sizeof(ByteRange)));
      for (const auto* c : *constants) raw_.inline_constants.push_back(range_of(c->storage()));
    }
    if (const auto* payloads = root.backend_delegate_data()) {
      DH_TRY(take(uint64_t{payloads->size()} * sizeof(ByteRange)));
      for (const auto* p : *payloads) raw_.inline_payloads.push_back(range_of(p->data()));
    }
    if (const auto* segments = root.segments()) {
      DH_TRY(take(uint64_t{segments->size()} * sizeof(ByteRange)));
      for (const auto* s : *segments) raw_.segments.push_back({s->offset(), s->size()});
    }
    if (const fb::Subsegments* constants = root.constant_segment()) {
      raw_.constants.segment = constants->segment_index();
      DH_TRY(copy_vector(constants->offsets(), raw_.constants.offsets));
    }
    if (const auto* subsegments = root.mutable_data_segments()) {
      DH_TRY(take(uint64_t{subsegments->size()} * sizeof(RawProgram::Subsegments)));
      for (const fb::Subsegments* s : *subsegments) {
        RawProgram::Subsegments& to = raw_.initial_contents.emplace_back();
        to.segment = s->segment_index();
        DH_TRY(copy_vector(s->offsets(), to.offsets));
      }
    }
    if (const auto* named = root.named_data()) {
      DH_TRY(take(uint64_t{named->size()} * sizeof(RawProgram::NamedSegment)));
      for (const fb::NamedData* n : *named) {
        RawProgram::NamedSegment& to = raw_.named_data.emplace_back();
        if (n->key() == nullptr) {
          return invalid_file(cat("named data ", raw_.named_data.size() - 1, ": key is missing"));
        }
        DH_TRY(copy_string(n->key(), to.key));
        to.segment = n->segment_index();
      }
    }
    return {};
  }

  Bytes flatbuffer_;
  uint64_t left_;
  RawProgram raw_;
};

// ---- writing ----

// The order in which children are created decides the bytes, so no two of them are created within
// one expression.
class Encoder {
 public:
  Result<std::vector<uint8_t>> run(const RawProgram& raw) {
    std::vector<flatbuffers::Offset<fb::Plan>> plans;
    for (const Plan& plan : raw.program.plans) plans.push_back(encode_plan(plan, raw));
    const auto plan_vector = builder_.CreateVector(plans);

    // Offsets that are zero are written, so that a tool may patch them in place.
    builder_.ForceDefaults(true);
    std::vector<flatbuffers::Offset<fb::Segment>> segments;
    for (const ByteRange& s : raw.segments) {
      segments.push_back(fb::CreateSegment(builder_, s.offset, s.size));
    }
    builder_.ForceDefaults(false);
    const auto segment_vector = builder_.CreateVector(segments);

    const auto constants = encode_subsegments(raw.constants);
    std::vector<flatbuffers::Offset<fb::Subsegments>> initial;
    for (const auto& s : raw.initial_contents) initial.push_back(encode_subsegments(s));
    flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Subsegments>>> initial_vector;
    if (!initial.empty()) initial_vector = builder_.CreateVector(initial);

    std::vector<flatbuffers::Offset<fb::NamedData>> named;
    for (const auto& n : raw.named_data) {
      const auto key = builder_.CreateString(n.key);
      named.push_back(fb::CreateNamedData(builder_, key, n.segment));
    }
    const auto named_vector = builder_.CreateVector(named);

    fb::ProgramBuilder program(builder_);
    program.add_version(raw.version);
    program.add_execution_plan(plan_vector);
    program.add_segments(segment_vector);
    program.add_constant_segment(constants);
    if (!initial.empty()) program.add_mutable_data_segments(initial_vector);
    // Present even when empty: a runtime that looks a name up without it dereferences null.
    program.add_named_data(named_vector);
    builder_.Finish(program.Finish(), fb::ProgramIdentifier());
    return splice();
  }

 private:
  flatbuffers::Offset<fb::Subsegments> encode_subsegments(const RawProgram::Subsegments& s) {
    const auto offsets = builder_.CreateVector(s.offsets);
    return fb::CreateSubsegments(builder_, s.segment, offsets);
  }

  flatbuffers::Offset<fb::Plan> encode_plan(const Plan& plan, const RawProgram& raw) {
    const auto name = builder_.CreateString(plan.name);
    const auto encoded_inputs = builder_.CreateString(plan.encoded_inputs);
    const auto encoded_outputs = builder_.CreateString(plan.encoded_outputs);
    const auto container = fb::CreateContainer(builder_, encoded_inputs, encoded_outputs);

    std::vector<flatbuffers::Offset<fb::Value>> values;
    values.reserve(plan.values.size());
    for (const Value& v : plan.values) {
      const auto type = static_cast<fb::Kind>(v.index() + 1);
      const auto table = std::visit([this](const auto& kind) { return encode_kind(kind); }, v);
      values.push_back(fb::CreateValue(builder_, type, table));
    }
    const auto value_vector = builder_.CreateVector(values);
    const auto inputs = builder_.CreateVector(plan.inputs);
    const auto outputs = builder_.CreateVector(plan.outputs);

    std::vector<flatbuffers::Offset<fb::Chain>> chains;
    for (const Chain& c : plan.chains) chains.push_back(encode_chain(c));
    const auto chain_vector = builder_.CreateVector(chains);

    std::vector<flatbuffers::Offset<fb::Operator>> operators;
    for (const Operator& op : plan.operators) {
      const auto op_name = builder_.CreateString(op.name);
      const auto overload = builder_.CreateString(op.overload);
      operators.push_back(fb::CreateOperator(builder_, op_name, overload));
    }
    const auto operator_vector = builder_.CreateVector(operators);

    std::vector<flatbuffers::Offset<fb::Delegate>> delegates;
    for (const Delegate& d : plan.delegates) {
      delegates.push_back(encode_delegate(d, raw.payloads[d.payload]));
    }
    const auto delegate_vector = builder_.CreateVector(delegates);
    const auto buffer_sizes = builder_.CreateVector(plan.non_const_buffer_sizes);

    fb::PlanBuilder out(builder_);
    out.add_name(name);
    out.add_container_meta_type(container);
    out.add_values(value_vector);
    out.add_inputs(inputs);
    out.add_outputs(outputs);
    out.add_chains(chain_vector);
    out.add_operators(operator_vector);
    out.add_delegates(delegate_vector);
    out.add_non_const_buffer_sizes(buffer_sizes);
    return out.Finish();
  }

  using AnyTable = flatbuffers::Offset<void>;

  AnyTable encode_kind(const Null&) { return fb::CreateNull(builder_).Union(); }
  AnyTable encode_kind(const Int& v) { return fb::CreateInt(builder_, v.value).Union(); }
  AnyTable encode_kind(const Bool& v) { return fb::CreateBool(builder_, v.value).Union(); }
  AnyTable encode_kind(const Double& v) { return fb::CreateDouble(builder_, v.value).Union(); }
  AnyTable encode_kind(const String& v) {
    return fb::CreateString(builder_, builder_.CreateString(v.value)).Union();
  }
  AnyTable encode_kind(const IntList& v) {
    return fb::CreateIntList(builder_, builder_.CreateVector(v.items)).Union();
  }
  AnyTable encode_kind(const DoubleList& v) {
    return fb::CreateDoubleList(builder_, builder_.CreateVector(v.items)).Union();
  }
  AnyTable encode_kind(const BoolList& v) {
    return fb::CreateBoolList(builder_, builder_.CreateVector(v.items)).Union();
  }
  AnyTable encode_kind(const TensorList& v) {
    return fb::CreateTensorList(builder_, builder_.CreateVector(v.items)).Union();
  }
  AnyTable encode_kind(const OptionalTensorList& v) {
    return fb::CreateOptionalTensorList(builder_, builder_.CreateVector(v.items)).Union();
  }
  AnyTable encode_kind(const Tensor& t) {
    const auto sizes = builder_.CreateVector(t.sizes);
    const auto dim_order = builder_.CreateVector(t.dim_order);
    flatbuffers::Offset<fb::Allocation> allocation;
    if (t.allocation) {
      allocation = fb::CreateAllocation(builder_, t.allocation->memory_id,
                                        static_cast<uint32_t>(t.allocation->offset),
                                        static_cast<uint32_t>(t.allocation->offset >> 32));
    }
    flatbuffers::Offset<fb::ExtraTensorInfo> extra;
    if (!t.external_name.empty()) {
      const auto external_name = builder_.CreateString(t.external_name);
      extra = fb::CreateExtraTensorInfo(builder_, 0, external_name, fb::TensorLocation::External);
    }
    fb::TensorBuilder out(builder_);
    out.add_scalar_type(static_cast<int8_t>(t.dtype));
    out.add_sizes(sizes);
    out.add_dim_order(dim_order);
    out.add_requires_grad(t.requires_grad);
    out.add_data_buffer_idx(t.data_index);
    if (t.allocation) out.add_allocation_info(allocation);
    out.add_shape_dynamism(static_cast<fb::Dynamism>(t.dynamism));
    if (!t.external_name.empty()) out.add_extra_tensor_info(extra);
    return out.Finish().Union();
  }

  flatbuffers::Offset<fb::Chain> encode_chain(const Chain& chain) {
    std::vector<flatbuffers::Offset<fb::Instruction>> instructions;
    instructions.reserve(chain.instructions.size());
    for (const Instruction& i : chain.instructions) {
      const auto type = static_cast<fb::Call>(i.index() + 1);
      const auto table = std::visit([this](const auto& call) { return encode_call(call); }, i);
      instructions.push_back(fb::CreateInstruction(builder_, type, table));
    }
    const auto instruction_vector = builder_.CreateVector(instructions);
    const auto inputs = builder_.CreateVector(chain.inputs);
    const auto outputs = builder_.CreateVector(chain.outputs);
    return fb::CreateChain(builder_, inputs, outputs, instruction_vector);
  }

  AnyTable encode_call(const KernelCall& c) {
    return fb::CreateKernelCall(builder_, c.op_index, builder_.CreateVector(c.args)).Union();
  }
  AnyTable encode_call(const DelegateCall& c) {
    return fb::CreateDelegateCall(builder_, c.delegate_index, builder_.CreateVector(c.args))
        .Union();
  }
  AnyTable encode_call(const MoveCall& c) {
    return fb::CreateMoveCall(builder_, c.from, c.to).Union();
  }
  AnyTable encode_call(const JumpFalseCall& c) {
    return fb::CreateJumpFalseCall(builder_, c.condition, c.destination).Union();
  }
  AnyTable encode_call(const FreeCall& c) { return fb::CreateFreeCall(builder_, c.value).Union(); }

  flatbuffers::Offset<fb::Delegate> encode_delegate(const Delegate& delegate,
                                                    const RawProgram::PayloadReference& payload) {
    const auto id = builder_.CreateString(delegate.id);
    const auto location =
        payload.in_segment ? fb::PayloadLocation::Segment : fb::PayloadLocation::Inline;
    const auto processed = fb::CreatePayloadReference(builder_, location, payload.index);
    std::vector<flatbuffers::Offset<fb::CompileSpec>> specs;
    for (const CompileSpec& spec : delegate.compile_specs) {
      const auto key = builder_.CreateString(spec.key);
      const auto value = builder_.CreateVector(spec.value);
      specs.push_back(fb::CreateCompileSpec(builder_, key, value));
    }
    const auto spec_vector = builder_.CreateVector(specs);
    return fb::CreateDelegate(builder_, id, processed, spec_vector);
  }

  // Opens a gap for the extended header after root offset and identifier. All other offsets are
  // relative, and the gap is a multiple of every alignment used.
  std::vector<uint8_t> splice() {
    const uint8_t* data = builder_.GetBufferPointer();
    const size_t size = builder_.GetSize();
    std::vector<uint8_t> out(size + kExtendedHeaderBytes);
    std::copy_n(data, kLeadingBytes, out.begin());
    std::copy(data + kLeadingBytes, data + size,
              out.begin() + static_cast<ptrdiff_t>(kLeadingBytes + kExtendedHeaderBytes));
    const auto root = flatbuffers::ReadScalar<uint32_t>(data);
    flatbuffers::WriteScalar(out.data(), static_cast<uint32_t>(root + kExtendedHeaderBytes));
    return out;
  }

  flatbuffers::FlatBufferBuilder builder_{4096};
};

// A bound for the bytes of the flatbuffer, generous per object.
uint64_t estimated_size(const RawProgram& raw) {
  constexpr uint64_t kPerObject = 128;
  uint64_t total = kPerObject * (raw.segments.size() + raw.constants.offsets.size());
  for (const auto& n : raw.named_data) total += n.key.size() + kPerObject;
  for (const auto& s : raw.initial_contents) total += kPerObject * (1 + s.offsets.size());
  for (const Plan& plan : raw.program.plans) {
    total += plan.encoded_inputs.size() + plan.encoded_outputs.size() + plan.name.size();
    for (const Value& value : plan.values) {
      total += kPerObject;
      std::visit(
          [&total](const auto& v) {
            using Kind = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<Kind, String>) total += v.value.size();
            if constexpr (std::is_same_v<Kind, Tensor>) total += v.external_name.size();
            if constexpr (requires { v.items; }) total += 8 * v.items.size();
          },
          value);
    }
    for (const Chain& chain : plan.chains) {
      for (const Instruction& i : chain.instructions) {
        total += kPerObject;
        std::visit(
            [&total](const auto& call) {
              if constexpr (requires { call.args; }) total += 4 * call.args.size();
            },
            i);
      }
    }
    for (const Operator& op : plan.operators) {
      total += kPerObject + op.name.size() + op.overload.size();
    }
    for (const Delegate& d : plan.delegates) {
      total += kPerObject + d.id.size();
      for (const CompileSpec& s : d.compile_specs)
        total += kPerObject + s.key.size() + s.value.size();
    }
  }
  return total;
}

}  // namespace

Result<RawProgram> decode_program(Bytes flatbuffer, uint64_t max_bytes) {
  DH_CHECK(flatbuffer.size() < kMaxFlatbuffer);
  flatbuffers::Verifier::Options options;
  // Real programs have more than 32 bytes per table; a table referred to again counts again.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(1'000'000 + flatbuffer.size() / 32);
  flatbuffers::Verifier verifier(flatbuffer.data(), flatbuffer.size(), options);
  if (!fb::VerifyProgramBuffer(verifier)) {
    return invalid_file(cat("the program's flatbuffer of ", flatbuffer.size(),
                            " bytes is damaged (an offset or length points outside)"));
  }
  return Decoder(flatbuffer, max_bytes).run(*fb::GetProgram(flatbuffer.data()));
}

Result<std::vector<uint8_t>> encode_program(const RawProgram& raw) {
  // FlatBufferBuilder asserts beyond 2 GiB, and needs room to double.
  if (estimated_size(raw) > kMaxFlatbuffer / 2) {
    return unsupported(cat("the program needs about ", estimated_size(raw),
                           " bytes, a flatbuffer holds at most ", kMaxFlatbuffer / 2));
  }
  return Encoder().run(raw);
}

}  // namespace downhaul::pte
